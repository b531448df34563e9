"""Two runs compared row by row: what changed, by how much, and whether chance explains it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from osmosis.metrics.huge import scale_of, within
from osmosis.metrics.paired import (
    Difference,
    Floats,
    paired_means,
    paired_rate_interval,
    paired_rates,
)
from osmosis.metrics.row_table import RowTable, SampleColumns, rows_of

SHOWN_CHANGES = 20

Change = Literal["fixed", "broken"]


@dataclass(frozen=True)
class Measure:
    """A number of both runs over the rows that both have it for, and their difference."""

    baseline: float
    candidate: float
    difference: Difference


@dataclass(frozen=True)
class ChangedRow:
    """A row that passes more often than before, or less.

    Passes and attempts of both runs; the mean reward, None where nothing was graded; the
    (row_index, run_index) of one sample of each that shows the change.
    """

    source_row: int
    baseline: tuple[int, int]
    candidate: tuple[int, int]
    baseline_reward: float | None
    candidate_reward: float | None
    baseline_sample: tuple[int, int]
    candidate_sample: tuple[int, int]


@dataclass(frozen=True)
class Changes:
    """How many rows changed in one way, and those that changed most."""

    count: int
    rows: tuple[ChangedRow, ...]


@dataclass(frozen=True)
class Comparison:
    """The candidate against the baseline over ``matched`` rows of the dataset.

    ``only_baseline`` and ``only_candidate`` are rows that the other did not record. A measure is
    None when no matched row has it in both runs.
    """

    matched: int
    only_baseline: int
    only_candidate: int
    pass_rate: Measure | None
    clean_pass_rate: Measure | None
    score: Measure | None
    cost_usd: Measure | None
    tokens: Measure | None
    duration_ms: Measure | None
    fixed: Changes
    broken: Changes


def compare(
    baseline: SampleColumns,
    candidate: SampleColumns,
    *,
    pass_threshold: float,
    groups: NDArray[Any] | None = None,
    shown: int = SHOWN_CHANGES,
) -> Comparison:
    """Compare two runs over the same dataset; both pass at ``pass_threshold``.

    Each row counts once, however many samples it has. ``groups`` gives for each row of the dataset
    the group it belongs to: rows of one group are resampled together.
    """
    largest = max(_largest(baseline.reward), _largest(candidate.reward))
    if (scale := scale_of(largest)) != 1.0:
        baseline, candidate = (
            replace(samples, reward=samples.reward / scale) for samples in (baseline, candidate)
        )
        found = _compare(baseline, candidate, pass_threshold / scale, groups, shown)
        return _times(found, scale)
    return _compare(baseline, candidate, pass_threshold, groups, shown)


def _compare(
    baseline: SampleColumns,
    candidate: SampleColumns,
    pass_threshold: float,
    groups: NDArray[Any] | None,
    shown: int,
) -> Comparison:
    all_before = rows_of(baseline, pass_threshold)
    all_after = rows_of(candidate, pass_threshold)
    matched, here, there = np.intersect1d(
        all_before.source_row, all_after.source_row, assume_unique=True, return_indices=True
    )
    before, after = all_before.take(here), all_after.take(there)
    of_rows = groups[matched] if groups is not None else None
    return Comparison(
        matched=len(matched),
        only_baseline=len(all_before.source_row) - len(matched),
        only_candidate=len(all_after.source_row) - len(matched),
        pass_rate=_rates((before.passes, before.attempts), (after.passes, after.attempts), of_rows),
        clean_pass_rate=_rates(
            (before.clean_passes, before.clean_attempts),
            (after.clean_passes, after.clean_attempts),
            of_rows,
        ),
        score=_means(before.reward, after.reward, of_rows, resample=True),
        cost_usd=_means(before.cost_usd, after.cost_usd, of_rows),
        tokens=_means(before.tokens, after.tokens, of_rows),
        duration_ms=_means(before.duration_ms, after.duration_ms, of_rows),
        fixed=_changes("fixed", (before, baseline), (after, candidate), shown),
        broken=_changes("broken", (before, baseline), (after, candidate), shown),
    )


def _largest(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.abs(known).max()) if len(known) else 0.0


def _times(found: Comparison, scale: float) -> Comparison:
    """The comparison of rewards that were divided by ``scale``."""

    def back(value: float | None) -> float | None:
        return None if value is None else within(value * scale)

    def changes(of: Changes) -> Changes:
        rows = (
            replace(
                row,
                baseline_reward=back(row.baseline_reward),
                candidate_reward=back(row.candidate_reward),
            )
            for row in of.rows
        )
        return Changes(of.count, tuple(rows))

    score = found.score
    if score is not None:
        difference = replace(
            score.difference,
            value=within(score.difference.value * scale),
            low=back(score.difference.low),
            high=back(score.difference.high),
        )
        score = Measure(within(score.baseline * scale), within(score.candidate * scale), difference)
    return replace(found, score=score, fixed=changes(found.fixed), broken=changes(found.broken))


def _rates(
    before: tuple[Floats, Floats], after: tuple[Floats, Floats], groups: NDArray[Any] | None
) -> Measure | None:
    """The measure of pass rates, given as (passes, attempts) by row."""
    tried = (before[1] > 0) & (after[1] > 0)
    if not tried.any():
        return None
    old, new = before[0][tried] / before[1][tried], after[0][tried] / after[1][tried]
    once = bool((before[1][tried] == 1).all() and (after[1][tried] == 1).all())
    if once and groups is None:
        difference = paired_rates(old == 1, new == 1)
    else:
        difference = paired_means(new - old, groups[tried] if groups is not None else None)
        if difference is not None and difference.low is None and difference.clusters > 1:
            difference = _bounded(difference)
    return _measure(old, new, difference)


def _bounded(difference: Difference) -> Difference:
    """Rates that no row changed have an interval all the same: that of so many unchanged rows."""
    if difference.value:
        return difference
    low, high = paired_rate_interval(0, 0, difference.clusters)
    return replace(difference, low=low, high=high, interval="bonett-price")


def _means(
    before: Floats, after: Floats, groups: NDArray[Any] | None, *, resample: bool = False
) -> Measure | None:
    known = ~(np.isnan(before) | np.isnan(after))
    old, new = before[known], after[known]
    of_known = groups[known] if groups is not None else None
    return _measure(old, new, paired_means(new - old, of_known, resample=resample))


def _measure(old: Floats, new: Floats, difference: Difference | None) -> Measure | None:
    if difference is None:
        return None
    return Measure(float(old.mean()), float(new.mean()), difference)


def _changes(
    kind: Change,
    before: tuple[RowTable, SampleColumns],
    after: tuple[RowTable, SampleColumns],
    shown: int,
) -> Changes:
    """The rows whose share of passes rose, or fell, the greatest change first."""
    old, new = before[0], after[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        rise = new.passes / new.attempts - old.passes / old.attempts
    size = rise if kind == "fixed" else -rise
    changed = np.flatnonzero(size > 0)
    largest = changed[np.argsort(-size[changed], kind="stable")][:shown]
    old_places = old.first_miss if kind == "fixed" else old.first_pass
    new_places = new.first_pass if kind == "fixed" else new.first_miss
    return Changes(
        len(changed),
        tuple(
            ChangedRow(
                source_row=int(old.source_row[row]),
                baseline=(int(old.passes[row]), int(old.attempts[row])),
                candidate=(int(new.passes[row]), int(new.attempts[row])),
                baseline_reward=_known(old.reward[row]),
                candidate_reward=_known(new.reward[row]),
                baseline_sample=_key(before[1], int(old_places[row])),
                candidate_sample=_key(after[1], int(new_places[row])),
            )
            for row in largest
        ),
    )


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _key(samples: SampleColumns, place: int) -> tuple[int, int]:
    return int(samples.row_index[place]), int(samples.run_index[place])
