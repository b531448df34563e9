"""A run's numbers, from wherever they are cheapest and still true.

A run that has ended carries its final summary. For one that goes on, the database groups the
samples and :mod:`osmosis.metrics` does the rest; a big run is counted anew only after a pause that
grows with the time the last count took. Lists never count: for them the counters on the row are
enough (:func:`osmosis.platform.evals.documents.list_item`).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select

from osmosis.metrics.documents import load_summary
from osmosis.metrics.summary import Cell, Summary, Tally
from osmosis.platform.db.models import Run, Sample
from osmosis.platform.db.session import Database

CACHED_RUNS = 256
# A count that took t seconds is good for PAUSE_FACTOR · t seconds.
PAUSE_FACTOR = 20.0


@dataclass
class _Counted:
    sample_count: int
    counted_at: float
    took_s: float
    summary: Summary


class Numbers:
    """Summaries of runs, with a memory for those that are still going on."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._counted: OrderedDict[str, _Counted] = OrderedDict()

    async def summary(self, run: Run) -> Summary:
        """The summary of ``run`` as of now, or of a moment ago for a big one."""
        if run.summary is not None:
            return load_summary(run.summary)
        known = self._counted.get(run.id)
        now = time.monotonic()
        if known is not None and (
            known.sample_count == run.sample_count
            or now - known.counted_at < known.took_s * PAUSE_FACTOR
        ):
            return known.summary
        summary = await self.count(run)
        took_s = time.monotonic() - now
        self._counted[run.id] = _Counted(run.sample_count, now, took_s, summary)
        self._counted.move_to_end(run.id)
        if len(self._counted) > CACHED_RUNS:
            self._counted.popitem(last=False)
        return summary

    async def count(self, run: Run) -> Summary:
        """The summary of everything recorded for ``run``, counted now."""
        run_id, threshold = run.id, run.pass_threshold
        return await self._db.examine(
            lambda connection: count_samples(connection, run_id, threshold)
        )

    def forget(self, run_id: str) -> None:
        self._counted.pop(run_id, None)


def count_samples(connection: Connection, run_id: str, pass_threshold: float) -> Summary:
    """The summary of everything recorded for a run, grouped by the database."""
    tally = Tally()
    cells = (
        select(
            Sample.status,
            Sample.error_type,
            Sample.reward,
            func.count(),
            func.sum(Sample.tokens),
            func.max(Sample.run_index),
        )
        .where(Sample.run_id == run_id)
        .group_by(Sample.status, Sample.error_type, Sample.reward)
    )
    for status, error_type, reward, count, tokens, last_run in connection.execute(cells):
        tally.cells[Cell(status, error_type, reward)] += count
        tally.tokens += tokens or 0
        tally.n_runs = max(tally.n_runs, last_run + 1)
    if tally.n_runs >= 2:
        passes = func.sum(case((Sample.reward >= pass_threshold, 1), else_=0))
        rows = (
            select(func.count().label("attempts"), passes.label("passes"))
            .where(Sample.run_id == run_id, Sample.status != "skipped")
            .group_by(Sample.row_index)
            .subquery()
        )
        grouped = select(rows.c.attempts, rows.c.passes, func.count()).group_by(
            rows.c.attempts, rows.c.passes
        )
        for attempts, passed, count in connection.execute(grouped):
            tally.rows[attempts, passed] += count
    return tally.summary(pass_threshold=pass_threshold)
