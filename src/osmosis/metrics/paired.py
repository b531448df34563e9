"""Differences between two runs on the same rows: how big, how sure, by chance or not.

Two runs on the same rows are not two independent samples: what makes a row hard makes it hard for
both. So the difference is taken row by row, and rows (or groups of rows that share a source) are
what is resampled. This needs numpy and ``scipy.special``, which come with the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from osmosis.metrics.intervals import CONFIDENCE, clustered_error, normal_quantile
from osmosis.metrics.student import t_quantile, t_tail

Floats = NDArray[np.float64]

FLIP_TEST = "sign-permutation"
SEED = 20_240_229
"""Resampling is repeatable: the same two runs give the same interval and p-value."""

RESAMPLES = 5000
FLIPS = 10_000
EXACT_FLIPS = 16
"""Up to so many groups that differ, every assignment of signs is tried: 2^16."""

FEW_MOVED = 10
"""With fewer groups that differ from the others, resampling sees too little of what may happen."""

MANY_GROUPS = 1000
"""Beyond, the mean of so many is normal: resampling would cost seconds and say the same."""

DRAWS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Difference:
    """Candidate minus baseline over ``rows`` rows in ``clusters`` groups, with a 95 % interval.

    ``p_value``: how often a difference at least as large arises when the two are alike. It and the
    interval are None when one group alone says nothing, the interval also when nothing varies.
    ``interval`` and ``test`` name the methods.
    """

    value: float
    low: float | None
    high: float | None
    p_value: float | None
    rows: int
    clusters: int
    interval: str
    test: str

    @property
    def significant(self) -> bool:
        """Whether chance alone is an unlikely reason, at 5 %."""
        return self.p_value is not None and self.p_value < 1 - CONFIDENCE


def paired_rates(baseline: NDArray[np.bool_], candidate: NDArray[np.bool_]) -> Difference | None:
    """The difference of two pass rates over the same rows, one try each; None without rows.

    The test is McNemar's with the mid-p correction (Fagerland, Lydersen and Laake 2013), the
    interval the adjusted one of Bonett and Price (2012) for paired proportions.
    """
    rows = len(baseline)
    if not rows:
        return None
    fixed = int(np.count_nonzero(candidate & ~baseline))
    broken = int(np.count_nonzero(baseline & ~candidate))
    low, high = paired_rate_interval(fixed, broken, rows)
    value = (fixed - broken) / rows
    return Difference(
        value,
        min(low, value),
        max(high, value),
        mcnemar_mid_p(fixed, broken),
        rows,
        rows,
        "bonett-price",
        "mcnemar-mid-p",
    )


def mcnemar_mid_p(fixed: int, broken: int) -> float:
    """The two-sided mid-p value of McNemar's test from the rows that changed either way."""
    changed, fewer = fixed + broken, min(fixed, broken)
    if not changed:
        return 1.0
    at_most = float(special.bdtr(fewer, changed, 0.5))
    return min(1.0, 2 * at_most - _binomial_half(fewer, changed))


def paired_rate_interval(fixed: int, broken: int, rows: int) -> tuple[float, float]:
    """Bonett and Price's interval: Wald's after one row more was seen to change either way."""
    up, down, total = (fixed + 1) / (rows + 2), (broken + 1) / (rows + 2), rows + 2
    reach = normal_quantile() * sqrt(max(up + down - (up - down) ** 2, 0.0) / total)
    return max(-1.0, up - down - reach), min(1.0, up - down + reach)


def paired_means(
    differences: Floats, groups: NDArray[Any] | None = None, *, resample: bool = True
) -> Difference | None:
    """The mean of differences by row, with rows of one group resampled together.

    The interval is the bias-corrected accelerated bootstrap (Efron 1987), the test a permutation
    of signs: if the two runs are alike, either could have been called the candidate. Where fewer
    than :data:`FEW_MOVED` groups stand out, the interval is Student's t. Beyond
    :data:`MANY_GROUPS` groups, and without ``resample``, both are Student's t. None without rows.
    """
    rows = len(differences)
    if not rows:
        return None
    sums, counts = grouped(differences, groups)
    clusters, value = len(sums), float(sums.sum() / rows)
    residuals = sums - value * counts
    error = clustered_error(float(residuals @ residuals), rows, clusters)
    if error is None:
        return Difference(value, None, None, None, rows, clusters, "none", "none")
    if not error:
        p_value = flip_p_value(sums)
        return Difference(value, None, None, p_value, rows, clusters, "none", FLIP_TEST)
    reach = t_quantile(0.5 + CONFIDENCE / 2, clusters - 1) * error
    low, high, interval = value - reach, value + reach, "t"
    if clusters > MANY_GROUPS or not resample:
        p_value = 2 * t_tail(abs(value) / error, clusters - 1)
        return Difference(value, low, high, p_value, rows, clusters, interval, "t")
    if _moved(sums, counts) >= FEW_MOVED:
        low, high = bca_interval(sums, counts)
        low, high, interval = min(low, value), max(high, value), "bca-bootstrap"
    return Difference(
        value, low, high, flip_p_value(sums), rows, clusters, interval, FLIP_TEST,
    )  # fmt: skip


def grouped(values: Floats, groups: NDArray[Any] | None) -> tuple[Floats, Floats]:
    """The sum and the number of values in each group; without groups each stands alone."""
    if groups is None:
        return values, np.ones(len(values))
    _, places = np.unique(groups, return_inverse=True)
    sums = np.bincount(places, weights=values).astype(np.float64)
    return sums, np.bincount(places).astype(np.float64)


def _moved(sums: Floats, counts: Floats) -> int:
    """How many groups do not have the most common mean."""
    _, often = np.unique(sums / counts, return_counts=True)
    return len(sums) - int(often.max())


def bca_interval(
    sums: Floats, counts: Floats, *, seed: int = SEED, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """The interval of Σ sums ÷ Σ counts when groups are drawn anew, with replacement."""
    means = resampled_means(sums, counts, seed=seed, resamples=resamples)
    return bca_of(means, sums, counts)


def resampled_means(sums: Floats, counts: Floats, *, seed: int, resamples: int) -> Floats:
    """Σ sums ÷ Σ counts of as many groups, drawn with replacement, again and again."""
    generator = np.random.default_rng(seed)
    groups = len(sums)
    alike = bool((counts == 1).all())
    means = np.empty(resamples)
    step = max(1, DRAWS_AT_ONCE // groups)
    for start in range(0, resamples, step):
        drawn = generator.integers(0, groups, (min(step, resamples - start), groups))
        rows = groups if alike else counts[drawn].sum(axis=1)
        means[start : start + len(drawn)] = sums[drawn].sum(axis=1) / rows
    return means


def bca_of(means: Floats, sums: Floats, counts: Floats) -> tuple[float, float]:
    """Efron's interval from the resampled means, corrected for bias and for skew."""
    value = sums.sum() / counts.sum()
    below = (np.count_nonzero(means < value) + np.count_nonzero(means <= value)) / 2 / len(means)
    bias = special.ndtri(min(max(below, 0.5 / len(means)), 1 - 0.5 / len(means)))
    without = (sums.sum() - sums) / (counts.sum() - counts)
    away = without.mean() - without
    scale = (away**2).sum() ** 1.5
    skew = (away**3).sum() / (6 * scale) if scale else 0.0
    ends = bias + special.ndtri([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    shares = special.ndtr(bias + ends / (1 - skew * ends))
    low, high = np.quantile(means, shares)
    return float(low), float(high)


def flip_p_value(sums: Floats, *, seed: int = SEED, flips: int = FLIPS) -> float:
    """How often random signs give a sum at least as far from zero. Zeros take no part."""
    moved = sums[sums != 0]
    if not len(moved):
        return 1.0
    observed = abs(moved.sum()) * (1 - 1e-12)
    if len(moved) <= EXACT_FLIPS:
        every = np.arange(2 ** len(moved))
        signs = 1.0 - 2.0 * ((every[:, None] >> np.arange(len(moved))) & 1)
        return float(np.mean(np.abs(signs @ moved) >= observed))
    generator = np.random.default_rng(seed)
    total = moved.sum()
    extreme, step = 0, max(1, DRAWS_AT_ONCE // len(moved))
    for start in range(0, flips, step):
        signs = generator.integers(0, 2, (min(step, flips - start), len(moved)), dtype=np.int8)
        flipped = signs.astype(np.float64) @ moved
        extreme += int(np.count_nonzero(np.abs(total - 2 * flipped) >= observed))
    return (extreme + 1) / (flips + 1)


def _binomial_half(successes: int, tries: int) -> float:
    """The chance of exactly so many heads."""
    log_choose = (
        special.gammaln(tries + 1)
        - special.gammaln(successes + 1)
        - special.gammaln(tries - successes + 1)
    )
    return float(np.exp(log_choose - tries * np.log(2.0)))
