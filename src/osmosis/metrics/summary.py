"""The summary of a run's samples: every number that a reader needs to judge it.

The documented formulas stand as they are: counts, ``pass_rate`` with failed samples in its
denominator, reward statistics, pass@k. Beside them stand ``clean_pass_rate``, the same over samples
without infrastructure failures (:mod:`osmosis.metrics.error_types`), intervals
(:mod:`osmosis.metrics.intervals`), pass^k, and how tokens, cost and times are spread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from osmosis.metrics.distribution import Distribution
from osmosis.metrics.histogram import Histogram, histogram
from osmosis.metrics.intervals import Estimate, mean_estimate, rate_estimate
from osmosis.metrics.moments import Moments
from osmosis.metrics.pass_at_k import PassAtK, pass_at_k_points, pass_hat_k_points
from osmosis.metrics.tally import (
    SPREADS,
    Counts,
    RowTotals,
    SampleOutcome,
    Tally,
    is_broken,
)

DEFINITION_VERSION = 2
"""Which definitions a summary follows. It grows when a stored number would come out differently.

1: the documented numbers, the clean pass rate, the histogram. 2: the same, and beside them
intervals, pass^k, spreads and custom metrics.
"""

QUANTILES = (0.5, 0.9, 0.95, 0.99)


class RewardStats(NamedTuple):
    """Statistics over graded rewards; ``std`` is the population's, 0 for one value."""

    mean: float
    median: float
    std: float
    min: float
    max: float


@dataclass(frozen=True)
class Spread:
    """How a quantity is spread over the samples, or model calls, that have it.

    ``exact`` is False when there are so many distinct values that the quantiles come from bins:
    then they are off by at most 0.5 % of themselves.
    """

    count: int
    mean: float
    min: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float
    exact: bool


@dataclass(frozen=True)
class MetricStats:
    """A metric that the workflow or the grader reported, over the ``count`` samples that have it;
    ``std`` is the population's."""

    count: int
    mean: float
    std: float
    min: float
    max: float


@dataclass(frozen=True)
class Summary:
    """Every number of a run, as far as its samples tell."""

    total_samples: int
    completed_samples: int
    graded: int
    passed: int
    failed: int
    skipped: int
    pass_rate: float
    pass_threshold: float
    tokens_used: int
    reward_stats: RewardStats | None
    n_runs: int
    pass_at_k: tuple[PassAtK, ...]
    infrastructure_failures: int
    clean_pass_rate: float | None
    errors: dict[str, int]
    histogram: Histogram | None
    pass_hat_k: tuple[PassAtK, ...]
    intervals: dict[str, Estimate]
    """``pass_rate``, ``clean_pass_rate``, ``score``; those that the samples can tell."""
    spreads: dict[str, Spread]
    """``tokens``, ``cost_usd``, ``duration_ms``, ``queue_ms``, and ``latency_ms`` of calls."""
    metrics: dict[str, MetricStats]
    definition_version: int = DEFINITION_VERSION


def summary_of(tally: Tally, *, median: float | None = None) -> Summary:
    """The numbers of everything counted so far.

    ``median``: the median reward, from who knows every reward; else it is the tally's, which is
    exact as far as its rewards are (:attr:`Distribution.exact`).
    """
    total, errors = Counts(), Counter[str]()
    by_status: Counter[str] = Counter()
    broken = Counts()
    for (status, error_type), counts in tally.cells.items():
        total.move(counts)
        by_status[status] += counts.samples
        if error_type is not None:
            errors[error_type] += counts.samples
        if is_broken(status, error_type):
            broken.move(counts)
    completed = total.samples - by_status["skipped"]
    clean = completed - broken.samples
    clean_passed = total.passed - broken.passed
    stats = _reward_stats(tally.rewards, median)
    rows = _rows_by_passes(tally)
    return Summary(
        total_samples=total.samples,
        completed_samples=completed,
        graded=total.graded,
        passed=total.passed,
        failed=by_status["failed"],
        skipped=by_status["skipped"],
        pass_rate=total.passed / completed if completed else 0.0,
        pass_threshold=tally.pass_threshold,
        tokens_used=tally.tokens,
        reward_stats=stats,
        n_runs=tally.n_runs,
        pass_at_k=tuple(pass_at_k_points(rows, tally.n_runs)),
        infrastructure_failures=broken.samples,
        clean_pass_rate=clean_passed / clean if clean else None,
        errors=dict(sorted(errors.items(), key=lambda item: (-item[1], item[0]))),
        histogram=histogram(tally.rewards),
        pass_hat_k=tuple(pass_hat_k_points(rows, tally.n_runs)),
        intervals=_intervals(tally, stats, (total.passed, completed), (clean_passed, clean)),
        spreads={name: _spread(tally.spreads[name]) for name in SPREADS if name in tally.spreads},
        metrics={name: _metric(tally.metrics[name]) for name in sorted(tally.metrics)},
    )


def tally_of(samples: Iterable[SampleOutcome], *, pass_threshold: float, n: int) -> Tally:
    """All of ``samples`` counted; ``n`` is the planned number of runs per row."""
    tally = Tally(pass_threshold, n)
    rows: dict[int, RowTotals] = {}
    for sample in samples:
        tally.add(sample)
        if n >= 2:
            row = rows.get(sample.row_index, RowTotals())
            rows[sample.row_index] = row.plus(
                sample.status, sample.error_type, sample.reward, pass_threshold
            )
    for row in rows.values():
        tally.put_row(row)
    return tally


def summarize(samples: Iterable[SampleOutcome], *, pass_threshold: float, n: int) -> Summary:
    """The summary of ``samples``; ``n`` is the planned number of runs per row."""
    known = list(samples)
    tally = tally_of(known, pass_threshold=pass_threshold, n=n)
    median = None
    if not tally.rewards.exact:
        graded = (s.reward for s in known if s.status != "skipped" and s.reward is not None)
        median = median_of(sorted(graded))
    return summary_of(tally, median=median)


def median_of(ascending: list[float]) -> float:
    """The median of at least one value."""
    count = len(ascending)
    below, above = ascending[(count - 1) // 2], ascending[count // 2]
    return below if below == above else below / 2 + above / 2


def _rows_by_passes(tally: Tally) -> Counter[tuple[int, int]]:
    rows: Counter[tuple[int, int]] = Counter()
    for (attempts, passes, _, _), count in tally.rows.items():
        rows[attempts, passes] += count
    return rows


def _reward_stats(rewards: Distribution, median: float | None) -> RewardStats | None:
    moments = rewards.moments
    if moments.low is None or moments.high is None:
        return None
    if median is None:
        median = rewards.quantiles([0.5])[0]
    return RewardStats(moments.mean(), median, moments.std(), moments.low, moments.high)


def _intervals(
    tally: Tally, stats: RewardStats | None, rate: tuple[int, int], clean: tuple[int, int]
) -> dict[str, Estimate]:
    """The estimates of the pass rates, given as (passed, samples), and of the score."""
    rows, residuals, clean_rows, clean_residuals = rate[1], 0.0, clean[1], 0.0
    if tally.n >= 2:
        counted = [(key, times) for key, times in sorted(tally.rows.items())]
        all_of = [((a, p), times) for (a, p, _, _), times in counted]
        without = [((a - b, p - q), times) for (a, p, b, q), times in counted if a > b]
        rows, residuals = _row_residuals(all_of, *rate)
        clean_rows, clean_residuals = _row_residuals(without, *clean)
    found = {
        "pass_rate": rate_estimate(*rate, rows, residuals),
        "clean_pass_rate": rate_estimate(*clean, clean_rows, clean_residuals),
    }
    if stats is not None:
        graded_rows = tally.graded_rows if tally.n >= 2 else tally.rewards.count
        found["score"] = mean_estimate(
            stats.mean, tally.rewards.count, graded_rows, tally.reward_error()
        )
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _row_residuals(
    rows: list[tuple[tuple[int, int], int]], passed: int, samples: int
) -> tuple[int, float]:
    """How many rows there are, and the sum over them of (passes − rate · attempts)²."""
    if not samples:
        return 0, 0.0
    rate = passed / samples
    squares = fsum(times * (p - rate * a) ** 2 for (a, p), times in rows)
    return sum(times for _, times in rows), squares


def _spread(values: Distribution) -> Spread:
    moments = values.moments
    p50, p90, p95, p99 = values.quantiles(QUANTILES)
    low, high = moments.low or 0.0, moments.high or 0.0
    return Spread(values.count, moments.mean(), low, p50, p90, p95, p99, high, values.exact)


def _metric(moments: Moments) -> MetricStats:
    low, high = moments.low or 0.0, moments.high or 0.0
    return MetricStats(moments.count, moments.mean(), moments.std(), low, high)
