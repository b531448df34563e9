"""Samples counted as they come: everything that the summary needs, in bounded room.

A tally takes in samples one by one and can be stored between them. All it holds are counts and sums
without rounding, so it depends on the samples alone: not on their order, and not on whether they
were counted one by one or all at once.

With several runs per row the tally also counts rows by what their samples have come to: before a
sample of a row is added the row is taken out as it was, and afterwards put back as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from osmosis.metrics.distribution import Distribution
from osmosis.metrics.error_types import is_infrastructure
from osmosis.metrics.moments import UNIT_BITS, Moments, pack, root_of_ratio, units, unpack

MAX_ERROR_TYPES = 200
"""Kinds of errors counted apart; the first ones by name, which no order of samples changes."""

MAX_METRICS = 64
"""Custom metrics counted; the first ones by name."""

OTHER = "other"
SPREADS = ("tokens", "cost_usd", "duration_ms", "queue_ms", "latency_ms")


class SampleOutcome(NamedTuple):
    """What the metrics need to know of one sample. Times are milliseconds.

    ``cost_usd`` is None when nobody knows it. ``latencies_ms`` are the times of its model calls
    that were answered, without the wait for our own limiter, which is in ``queue_ms``.
    """

    row_index: int
    run_index: int
    status: str
    reward: float | None = None
    tokens: int | None = None
    error_type: str | None = None
    duration_ms: float | None = None
    queue_ms: float | None = None
    cost_usd: float | None = None
    latencies_ms: Iterable[float] = ()
    metrics: Mapping[str, float] | None = None


class RowTotals(NamedTuple):
    """What the samples of one row have come to; ``units`` is their reward in units of 2^-1074.

    ``broken`` and ``broken_passes`` are those that infrastructure failed.
    """

    attempts: int = 0
    passes: int = 0
    broken: int = 0
    broken_passes: int = 0
    graded: int = 0
    units: int = 0

    def plus(
        self, status: str, error_type: str | None, reward: float | None, threshold: float
    ) -> RowTotals:
        """With one sample more."""
        if status == "skipped":
            return self
        passed = reward is not None and reward >= threshold
        broken = is_broken(status, error_type)
        return RowTotals(
            self.attempts + 1,
            self.passes + passed,
            self.broken + broken,
            self.broken_passes + (broken and passed),
            self.graded + (reward is not None),
            self.units + (units(reward) if reward is not None else 0),
        )


class Cell(NamedTuple):
    """Samples of one status and kind of error."""

    status: str
    error_type: str | None


@dataclass
class Counts:
    """How many samples a cell holds, how many of them have a reward, and how many pass."""

    samples: int = 0
    graded: int = 0
    passed: int = 0

    def move(self, other: Counts) -> None:
        self.samples += other.samples
        self.graded += other.graded
        self.passed += other.passed


def is_broken(status: str, error_type: str | None) -> bool:
    """Whether a sample failed for a reason that says nothing about the agent."""
    return status == "failed" and is_infrastructure(error_type)


@dataclass
class Tally:
    """The samples of a run so far, passing at ``pass_threshold``, ``n`` planned per row."""

    pass_threshold: float
    n: int
    n_runs: int = 0
    tokens: int = 0
    cells: dict[Cell, Counts] = field(default_factory=dict[Cell, Counts])
    rewards: Distribution = field(default_factory=Distribution)
    spreads: dict[str, Distribution] = field(default_factory=dict[str, Distribution])
    metrics: dict[str, Moments] = field(default_factory=dict[str, Moments])
    rows: Counter[tuple[int, int, int, int]] = field(
        default_factory=Counter[tuple[int, int, int, int]]
    )
    """Rows by attempts, passes, broken attempts and broken passes; kept for n ≥ 2."""
    graded_rows: int = 0
    row_squares: int = 0
    row_products: int = 0
    row_counts: int = 0
    """Over rows: the sums of reward², of reward · graded, and of graded²."""

    def add(self, sample: SampleOutcome) -> None:
        """Take in one sample. Its row, for n ≥ 2, is the caller's to take out and put back."""
        self.n_runs = max(self.n_runs, sample.run_index + 1)
        counts = self._counts(Cell(sample.status, sample.error_type))
        counts.samples += 1
        if sample.tokens is not None:
            self.tokens += sample.tokens
            self._spread("tokens", sample.tokens)
        if sample.reward is not None and sample.status != "skipped":
            counts.graded += 1
            counts.passed += sample.reward >= self.pass_threshold
            self.rewards.add(sample.reward)
        self._spread("cost_usd", sample.cost_usd)
        self._spread("duration_ms", sample.duration_ms)
        self._spread("queue_ms", sample.queue_ms)
        for latency in sample.latencies_ms:
            self._spread("latency_ms", latency)
        for name, value in (sample.metrics or {}).items():
            self._metric(name).add(value)
        self._bound_metrics()

    def put_row(self, row: RowTotals) -> None:
        """Count a row as it is now."""
        self._move_row(row, 1)

    def take_row(self, row: RowTotals) -> None:
        """No longer count a row as it was; one that was empty is none."""
        self._move_row(row, -1)

    def take_in(self, other: Tally) -> None:
        """Take in everything that ``other`` counted, of the same run."""
        self.n_runs = max(self.n_runs, other.n_runs)
        self.tokens += other.tokens
        for cell, counts in other.cells.items():
            self._counts(cell).move(counts)
        self.rewards.take_in(other.rewards)
        for name, spread in other.spreads.items():
            self.spreads.setdefault(name, Distribution()).take_in(spread)
        for name, moments in other.metrics.items():
            self._metric(name).take_in(moments)
        self._bound_metrics()
        for key, rows in other.rows.items():
            self._count_rows(key, rows)
        self.graded_rows += other.graded_rows
        self.row_squares += other.row_squares
        self.row_products += other.row_products
        self.row_counts += other.row_counts

    def reward_error(self) -> float | None:
        """The standard error of the mean reward, clustered by row for n ≥ 2.

        None with fewer than two rows.
        """
        count, total = self.rewards.count, self.rewards.moments.total
        rows = self.graded_rows if self.n >= 2 else count
        if rows < 2:
            return None
        if self.n < 2:
            spread = count * self.rewards.moments.squares - total * total
            return root_of_ratio(spread, (count * count * (count - 1)) << (2 * UNIT_BITS))
        # The sum over rows of (reward − mean · graded)², times count².
        spread = (
            count * count * self.row_squares
            - 2 * count * total * self.row_products
            + total * total * self.row_counts
        )
        return root_of_ratio(spread * rows, (count**4 * (rows - 1)) << (2 * UNIT_BITS))

    def dump(self) -> dict[str, Any]:
        """As plain JSON; :meth:`load` reads it back."""
        return {
            "pass_threshold": self.pass_threshold,
            "n": self.n,
            "n_runs": self.n_runs,
            "tokens": self.tokens,
            "cells": [
                [*cell, counts.samples, counts.graded, counts.passed]
                for cell, counts in self.cells.items()
            ],
            "rewards": self.rewards.dump(),
            "spreads": {name: spread.dump() for name, spread in self.spreads.items()},
            "metrics": {name: moments.dump() for name, moments in self.metrics.items()},
            "rows": [[*key, count] for key, count in self.rows.items()],
            "graded_rows": self.graded_rows,
            "row_squares": pack(self.row_squares),
            "row_products": pack(self.row_products),
            "row_counts": self.row_counts,
        }

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Tally:
        return cls(
            stored["pass_threshold"],
            stored["n"],
            stored["n_runs"],
            stored["tokens"],
            {Cell(status, kind): Counts(*counts) for status, kind, *counts in stored["cells"]},
            Distribution.load(stored["rewards"]),
            {name: Distribution.load(spread) for name, spread in stored["spreads"].items()},
            {name: Moments.load(moments) for name, moments in stored["metrics"].items()},
            Counter({(a, p, b, c): count for a, p, b, c, count in stored["rows"]}),
            stored["graded_rows"],
            unpack(stored["row_squares"]),
            unpack(stored["row_products"]),
            stored["row_counts"],
        )

    def _spread(self, name: str, value: float | None) -> None:
        if value is not None:
            if name not in self.spreads:
                self.spreads[name] = Distribution()
            self.spreads[name].add(value)

    def _metric(self, name: str) -> Moments:
        if name not in self.metrics:
            self.metrics[name] = Moments()
        return self.metrics[name]

    def _bound_metrics(self) -> None:
        while len(self.metrics) > MAX_METRICS:
            del self.metrics[max(self.metrics)]

    def _counts(self, cell: Cell) -> Counts:
        """The counts of a cell; the last kinds by name, beyond the bound, share one."""
        known = self.cells.get(cell)
        if known is not None:
            return known
        self.cells[cell] = Counts()
        kinds = {c.error_type for c in self.cells if c.error_type and c.error_type != OTHER}
        if len(kinds) > MAX_ERROR_TYPES:
            last = max(kinds)
            for gone in [c for c in self.cells if c.error_type == last]:
                rest = Cell(gone.status, OTHER)
                self.cells.setdefault(rest, Counts()).move(self.cells.pop(gone))
            if cell not in self.cells:
                return self.cells[Cell(cell.status, OTHER)]
        return self.cells[cell]

    def _move_row(self, row: RowTotals, times: int) -> None:
        if row.attempts:
            self._count_rows((row.attempts, row.passes, row.broken, row.broken_passes), times)
        if row.graded:
            self.graded_rows += times
            self.row_squares += times * row.units * row.units
            self.row_products += times * row.units * row.graded
            self.row_counts += times * row.graded * row.graded

    def _count_rows(self, key: tuple[int, int, int, int], times: int) -> None:
        self.rows[key] += times
        if not self.rows[key]:
            del self.rows[key]
