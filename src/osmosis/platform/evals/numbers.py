"""A run's numbers, from wherever they are cheapest and still true.

A run that has ended carries its final summary. For one that goes on the tally that is kept as
records arrive has them all, however many samples there are. A run without a tally (samples were
taken out by a retry, or it comes from an earlier version) is counted anew once, off the event loop,
and has one from then on. Lists never count: for them the counters on the row are enough
(:func:`osmosis.platform.evals.documents.list_item`).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from osmosis.metrics.documents import load_summary
from osmosis.metrics.summary import Summary
from osmosis.platform.db.models import Run
from osmosis.platform.db.session import Database
from osmosis.platform.evals import tallies
from osmosis.platform.evals.run_count import RunCount

KNOWN_RUNS = 256
# A summary that took t seconds is good for PAUSE_FACTOR · t seconds.
PAUSE_FACTOR = 20.0
# While samples are graded again everything is counted for each look; beyond so many samples a look
# does not wait for that and shows the count before.
AWAITED_SAMPLES = 5000

Task = asyncio.Task[Any]


@dataclass
class _Known:
    sample_count: int
    made_at: float
    took_s: float
    summary: Summary


class Numbers:
    """Summaries of runs, with a memory for those that are still going on."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._counting: dict[str, Task] = {}

    async def summary(self, run: Run) -> Summary:
        """The summary of ``run`` as of now, or of a moment ago for a big one."""
        if run.summary is not None:
            stored = load_summary(run.summary)
            if stored is not None:
                return stored
        known = self._known.get(run.id)
        regrading = run.regrade is not None
        if known is not None:
            if known.sample_count == run.sample_count and not regrading:
                return known.summary
            if time.monotonic() - known.made_at < known.took_s * PAUSE_FACTOR:
                return known.summary
            if regrading and run.sample_count > AWAITED_SAMPLES:
                self._start(run, self._look)
                return known.summary
        if run.sample_count and not regrading:
            # While samples are replaced there is no tally to keep.
            await self.ensure_counted(run)
        return await self._look(run)

    async def _look(self, run: Run) -> Summary:
        began = time.monotonic()
        summary = await self._db.examine(lambda connection: summary_now(connection, run))
        self._known[run.id] = _Known(run.sample_count, began, time.monotonic() - began, summary)
        self._known.move_to_end(run.id)
        if len(self._known) > KNOWN_RUNS:
            self._known.popitem(last=False)
        return summary

    async def ensure_counted(self, run: Run) -> None:
        """Count the run anew when it has no tally; several who ask wait for one count."""
        if await self._db.examine(lambda connection: tallies.has_tally(connection, run.id)):
            return
        await asyncio.shield(self._start(run, self._count))

    def forget(self, run_id: str) -> None:
        self._known.pop(run_id, None)

    def _start(self, run: Run, count: Callable[[Run], Coroutine[Any, Any, object]]) -> Task:
        """The count of the run that is going on, or a new one."""
        task = self._counting.get(run.id)
        if task is None:
            task = self._counting[run.id] = asyncio.create_task(count(run))
            task.add_done_callback(lambda _task: self._counting.pop(run.id, None))
        return task

    async def _count(self, run: Run) -> None:
        """Count what is there in one look, then add in a transaction what came meanwhile."""
        threshold, n = run.pass_threshold, run.n

        def look(connection: Connection) -> tuple[RunCount, int]:
            return tallies.count_anew(connection, run.id, pass_threshold=threshold, n=n)

        count, last_id = await self._db.examine(look)

        def keep(connection: Connection) -> None:
            generation = select(Run.generation).where(Run.id == run.id).with_for_update()
            if connection.execute(generation).scalar() != run.generation:
                return  # Reopened meanwhile: these samples are not all there any more.
            later = tallies.samples_after(connection, run.id, last_id)
            tallies.add_samples(connection, run.id, count, later)
            tallies.drop_tally(connection, run.id)
            tallies.store_tally(connection, run.id, count)

        await self._db.transact(keep)


def summary_now(connection: Connection, run: Run) -> Summary:
    """The summary of what is recorded for ``run``, by its tally; counted anew without one."""
    count = tallies.load_tally(connection, run.id)
    if count is None:
        count, _ = tallies.count_anew(
            connection, run.id, pass_threshold=run.pass_threshold, n=run.n
        )
    return tallies.summary_in(connection, run.id, count)
