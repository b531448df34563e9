"""Which sample runs next: rows pulled lazily, lost samples first, suspects apart.

A lane asks :meth:`Admission.next` for a sample, drives it, and says :meth:`Admission.settled`
once its try is over. Nothing is created per row ahead of that, so a million rows cost nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from osmosis.evaluation.plan import Done, RowSource
from osmosis.evaluation.sample import Sample
from osmosis.wire.errors import OsmosisError, RunFailed
from osmosis.wire.runner import RowItem

PROCESS_LOST = "the rollout process is being replaced"
MODEL_IN_DOUBT = "the model is being asked whether it still answers"


class Admission:
    """Hands out samples. While groups of suspects wait, exactly one group runs, alone."""

    def __init__(self, rows: RowSource, n: int, done: Done) -> None:
        self._rows: AsyncIterator[RowItem] = rows()
        self._n = n
        self._done = done
        self._ready: deque[Sample] = deque()
        self._groups: deque[list[Sample]] = deque()
        self._group: deque[Sample] | None = None
        self._pull_lock = asyncio.Lock()
        self._waiters: set[asyncio.Future[None]] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._exhausted = False
        self._pauses: set[str] = set()
        self._closed = False
        self.running: set[Sample] = set()

    @property
    def closed(self) -> bool:
        """True once nothing is handed out any more: the run is being ended."""
        return self._closed

    async def next(self) -> Sample | None:
        """The next sample to try; None when there is and will be nothing more to do."""
        while not self._closed:
            if (sample := self._pick()) is not None:
                self.running.add(sample)
                self._quiet.clear()
                return sample
            if self._may_pull():
                await self._pull()
                continue
            if self._is_over():
                break
            await self._change()
        return None

    def settled(self, sample: Sample) -> None:
        """The try of ``sample`` is over. A sample to be tried again was handed back before."""
        self.running.discard(sample)
        if not self.running:
            self._quiet.set()
            self._advance()
            self._wake()

    def retry(self, samples: Iterable[Sample]) -> None:
        """Run these again, before anything new."""
        self._ready.extendleft(reversed(list(samples)))
        self._wake()

    def isolate(self, groups: Iterable[list[Sample]]) -> None:
        """Run each group by itself, in this order, before everything else.

        What the interrupted group has not started yet never ran beside a crash: it just waits.
        """
        self._ready.extendleft(reversed(self._group or ()))
        self._group = deque()
        self._groups.extendleft(reversed([group for group in groups if group]))
        self._advance()
        self._wake()

    def release_suspects(self) -> None:
        """The culprit is found: groups that still wait are nobody's suspects any more."""
        waiting = [sample for group in self._groups for sample in group]
        self._groups.clear()
        self._ready.extendleft(reversed(waiting))

    @property
    def _paused(self) -> bool:
        return bool(self._pauses)

    def pause(self, why: str) -> None:
        """Hand out nothing until :meth:`resume` for every reason that was given."""
        self._pauses.add(why)

    def resume(self, why: str) -> None:
        self._pauses.discard(why)
        self._advance()
        self._wake()

    def close(self) -> None:
        """Hand out nothing any more."""
        self._closed = True
        self._wake()

    async def release_rows(self) -> None:
        """Close the source of rows."""
        close = getattr(self._rows, "aclose", None)
        if close is not None:
            await close()

    async def quiet(self) -> None:
        """Wait until no try is running."""
        await self._quiet.wait()

    def _pick(self) -> Sample | None:
        if self._paused:
            return None
        if self._group is not None:
            return self._group.popleft() if self._group else None
        return self._ready.popleft() if self._ready else None

    def _may_pull(self) -> bool:
        return not (self._paused or self._exhausted or self._group is not None)

    def _is_over(self) -> bool:
        return (
            self._exhausted
            and not self._paused
            and not (self.running or self._ready or self._groups)
            and self._group is None
        )

    def _advance(self) -> None:
        """On to the next group of suspects once the present one is through."""
        if self._group is None or self._group or self.running or self._paused:
            return
        self._group = deque(self._groups.popleft()) if self._groups else None

    async def _pull(self) -> None:
        """Bring the next row's open samples to ``_ready``; one lane at a time."""
        async with self._pull_lock:
            while not (self._ready or self._exhausted):
                try:
                    row = await anext(self._rows)
                except StopAsyncIteration:
                    self._exhausted = True
                    self._wake()
                except OsmosisError as error:
                    raise RunFailed("dataset_unreadable", error.message, hint=error.hint) from error
                else:
                    self._ready.extend(
                        Sample(row, run_index)
                        for run_index in range(self._n)
                        if (row.row_index, run_index) not in self._done
                    )

    async def _change(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
