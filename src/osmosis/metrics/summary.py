"""The summary of a run's samples: counts, pass rate, reward statistics, pass@k.

The formulas are the documented ones. Beside ``pass_rate``, which keeps failed samples in its
denominator, stands ``clean_pass_rate``: the same over samples without infrastructure failures
(:mod:`osmosis.metrics.error_types`). The result does not depend on the order of the samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import fsum, sqrt
from typing import NamedTuple

from osmosis.metrics.error_types import is_infrastructure
from osmosis.metrics.histogram import Histogram, histogram
from osmosis.metrics.pass_at_k import PassAtK, pass_at_k_points

# Above this, squares of rewards leave the float range; they are scaled down first.
LARGE_REWARD = 1e100


class SampleOutcome(NamedTuple):
    """What the metrics need to know of one sample."""

    row_index: int
    run_index: int
    status: str
    reward: float | None = None
    tokens: int | None = None
    error_type: str | None = None


class RewardStats(NamedTuple):
    """Statistics over graded rewards; ``std`` is the population's, 0 for one value."""

    mean: float
    median: float
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


class Cell(NamedTuple):
    """Samples that are alike in everything but their place."""

    status: str
    error_type: str | None
    reward: float | None


@dataclass
class Tally:
    """Samples counted by what they have in common: what a database can group without us.

    ``rows`` counts rows by (attempts that were not skipped, passes); it may stay empty when
    every row has one attempt, for then there is no pass@k.
    """

    cells: Counter[Cell] = field(default_factory=Counter[Cell])
    rows: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    tokens: int = 0
    n_runs: int = 0

    def summary(self, *, pass_threshold: float) -> Summary:
        """The numbers of everything counted so far."""
        total = skipped = failed = passed = infrastructure = clean_passed = 0
        rewards: Counter[float] = Counter()
        errors: Counter[str] = Counter()
        for (status, error_type, reward), count in self.cells.items():
            total += count
            if error_type is not None:
                errors[error_type] += count
            if status == "skipped":
                skipped += count
                continue
            broken = status == "failed" and is_infrastructure(error_type)
            failed += count if status == "failed" else 0
            infrastructure += count if broken else 0
            if reward is not None:
                rewards[reward] += count
                if reward >= pass_threshold:
                    passed += count
                    clean_passed += 0 if broken else count
        completed = total - skipped
        clean = completed - infrastructure
        points = pass_at_k_points(self.rows, self.n_runs) if self.n_runs >= 2 else []
        return Summary(
            total_samples=total,
            completed_samples=completed,
            graded=rewards.total(),
            passed=passed,
            failed=failed,
            skipped=skipped,
            pass_rate=passed / completed if completed else 0.0,
            pass_threshold=pass_threshold,
            tokens_used=self.tokens,
            reward_stats=reward_stats(rewards),
            n_runs=self.n_runs,
            pass_at_k=tuple(points),
            infrastructure_failures=infrastructure,
            clean_pass_rate=clean_passed / clean if clean else None,
            errors=dict(sorted(errors.items(), key=lambda item: (-item[1], item[0]))),
            histogram=histogram(rewards),
        )


def summarize(samples: Iterable[SampleOutcome], *, pass_threshold: float, n: int) -> Summary:
    """The summary of ``samples``; ``n`` is the planned number of runs per row."""
    tally = Tally()
    attempts: Counter[int] = Counter()
    passes: Counter[int] = Counter()
    for sample in samples:
        tally.cells[Cell(sample.status, sample.error_type, sample.reward)] += 1
        tally.tokens += sample.tokens or 0
        tally.n_runs = max(tally.n_runs, sample.run_index + 1)
        if n >= 2 and sample.status != "skipped":
            attempts[sample.row_index] += 1
            if sample.reward is not None and sample.reward >= pass_threshold:
                passes[sample.row_index] += 1
    tally.rows.update((count, passes[row]) for row, count in attempts.items())
    return tally.summary(pass_threshold=pass_threshold)


def reward_stats(rewards: Counter[float]) -> RewardStats | None:
    """Statistics over ``rewards`` (value → count); None without any."""
    count = rewards.total()
    if not count:
        return None
    low, high = min(rewards), max(rewards)
    scale = max(abs(low), abs(high))
    scale = scale if scale > LARGE_REWARD else 1.0
    # fsum is exact, so the result is the same in any order.
    mean = fsum(reward / scale for reward in rewards.elements()) / count
    squares = fsum((reward / scale - mean) ** 2 for reward in rewards.elements())
    std = sqrt(squares / count) * scale if low != high else 0.0
    mean = min(max(mean * scale, low), high)
    return RewardStats(mean=mean, median=_median(rewards, count), std=std, min=low, max=high)


def _median(rewards: Counter[float], count: int) -> float:
    lower_rank, upper_rank = (count - 1) // 2, count // 2
    lower: float | None = None
    seen = 0
    for reward in sorted(rewards):
        seen += rewards[reward]
        if lower is None and seen > lower_rank:
            lower = reward
        if lower is not None and seen > upper_rank:
            return lower if lower == reward else lower / 2 + reward / 2
    raise ValueError("the median of nothing")
