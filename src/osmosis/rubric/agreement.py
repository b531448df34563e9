"""How far several judges agree, or one judge with itself. Pure numbers; None is a missing score.

A unit is one judged text; each row holds the scores of one judge, in the order of the units.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Scores = Sequence[float | None]


@dataclass(frozen=True)
class PairAgreement:
    """Two judges on the units that both scored. None: not defined, for lack of variation."""

    units: int
    exact: float | None
    """Share of units with the very same score."""
    mean_absolute_difference: float | None
    kappa: float | None
    """Cohen's kappa, each distinct score a category."""
    weighted_kappa: float | None
    """Cohen's kappa with squared distances as weights, which is Lin's concordance."""


def krippendorff_alpha(judges: Sequence[Scores]) -> float | None:
    """Krippendorff's alpha with the interval metric, over units that at least two judges scored.

    ``1 - D_o / D_e`` of Krippendorff, *Computing Krippendorff's Alpha-Reliability* (2011), with
    missing scores allowed. D_o: mean squared difference within units, each unit weighted by its
    scores; D_e: over all pairs of scores. None when all scores are the same, or fewer than two
    scores can be paired.
    """
    units = [[score for score in unit if score is not None] for unit in zip(*judges, strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    values = [score for unit in units for score in unit]
    if len(values) < 2:
        return None
    expected = _squared_differences(values) / (len(values) - 1)
    if expected == 0:
        return None
    observed = math.fsum(_squared_differences(unit) / (len(unit) - 1) for unit in units)
    return 1 - observed / expected


def pair_agreement(first: Scores, second: Scores) -> PairAgreement:
    """Two judges beside each other."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if not pairs:
        return PairAgreement(0, None, None, None, None)
    count = len(pairs)
    return PairAgreement(
        units=count,
        exact=sum(a == b for a, b in pairs) / count,
        mean_absolute_difference=math.fsum(abs(a - b) for a, b in pairs) / count,
        kappa=_kappa(pairs),
        weighted_kappa=_weighted_kappa(pairs),
    )


def _kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Cohen (1960): agreement beyond what the two judges' own frequencies give by chance."""
    count = len(pairs)
    left, right = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    by_chance = sum(left[score] * right[score] for score in left)
    if by_chance == count * count:
        return None
    agreed = sum(a == b for a, b in pairs)
    return (agreed * count - by_chance) / (count * count - by_chance)


def _weighted_kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Cohen (1968) with quadratic weights, ``1 - observed / expected`` squared distance."""
    count = len(pairs)
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    observed = math.fsum((a - b) ** 2 for a, b in pairs) / count
    mean_left, mean_right = math.fsum(left) / count, math.fsum(right) / count
    expected = (
        math.fsum((a - mean_left) ** 2 for a in left)
        + math.fsum((b - mean_right) ** 2 for b in right)
    ) / count + (mean_left - mean_right) ** 2
    return None if expected == 0 else 1 - observed / expected


def _squared_differences(values: Sequence[float]) -> float:
    """The sum of squared differences over all ordered pairs: ``2 n Σ (x - mean)²``."""
    if min(values) == max(values):
        return 0.0  # exactly, whatever rounding does to the mean
    mean = math.fsum(values) / len(values)
    return 2 * len(values) * math.fsum((value - mean) ** 2 for value in values)
