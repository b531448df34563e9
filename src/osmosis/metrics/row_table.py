"""A run's samples as columns, and the same reduced to rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class SampleColumns:
    """The samples of a run, one entry each in every column; a value that is not known is NaN.

    ``skipped`` samples take part in nothing; ``broken`` ones failed by infrastructure.
    """

    source_row: Ints
    row_index: Ints
    run_index: Ints
    skipped: Bools
    broken: Bools
    reward: Floats
    tokens: Floats
    cost_usd: Floats
    duration_ms: Floats


@dataclass(frozen=True)
class RowTable:
    """Rows in the order of ``source_row``, each with what its samples have come to.

    ``attempts`` leaves out skipped samples; a sample without a reward is an attempt that did not
    pass. Means are NaN where no sample has the value. ``first_pass`` and ``first_miss`` are the
    places in the columns of one sample each that shows it, −1 without.
    """

    source_row: Ints
    attempts: Floats
    passes: Floats
    clean_attempts: Floats
    clean_passes: Floats
    reward: Floats
    tokens: Floats
    cost_usd: Floats
    duration_ms: Floats
    first_pass: Ints
    first_miss: Ints

    def take(self, places: NDArray[Any]) -> RowTable:
        """The rows at these places."""
        return RowTable(**{name: column[places] for name, column in vars(self).items()})


def rows_of(samples: SampleColumns, pass_threshold: float) -> RowTable:
    """The rows of a run whose samples pass at ``pass_threshold``."""
    source_row, place = np.unique(samples.source_row, return_inverse=True)
    rows = len(source_row)
    counted = ~samples.skipped
    # NaN reaches no threshold.
    passed = counted & (samples.reward >= pass_threshold)
    clean = counted & ~samples.broken

    def number(which: Bools) -> Floats:
        return np.bincount(place[which], minlength=rows).astype(np.float64)

    def mean(values: Floats) -> Floats:
        known = counted & ~np.isnan(values)
        total = np.bincount(place[known], weights=values[known], minlength=rows)
        with np.errstate(invalid="ignore", divide="ignore"):
            return total / number(known)

    def first(which: Bools) -> Ints:
        found = np.full(rows, -1, dtype=np.int64)
        places = np.flatnonzero(which)[::-1]
        found[place[places]] = places
        return found

    return RowTable(
        source_row=source_row,
        attempts=number(counted),
        passes=number(passed),
        clean_attempts=number(clean),
        clean_passes=number(clean & passed),
        reward=mean(samples.reward),
        tokens=mean(samples.tokens),
        cost_usd=mean(samples.cost_usd),
        duration_ms=mean(samples.duration_ms),
        first_pass=first(passed),
        first_miss=first(counted & ~passed),
    )
