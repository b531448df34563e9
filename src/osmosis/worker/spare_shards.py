"""Keeps one shard process started ahead of need, so that a claim costs no imports.

A new spare is made when the worker is idle, or after a while: right after a claim its imports
would take processor time from the very run that is starting.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from osmosis.worker.shard_process import ShardProcess
from osmosis.worker.strays import kill_strays

SPARE_DELAY_S = 20.0

log = logging.getLogger("osmosis.worker")


class SpareShards:
    """All shard processes of a worker; at most one of them is spare."""

    def __init__(self, records_dir: Path) -> None:
        self._records_dir = records_dir
        self._lock = asyncio.Lock()
        self._spare: ShardProcess | None = None
        self._busy: set[ShardProcess] = set()
        self._starting = 0
        self._refill: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def take(self) -> ShardProcess:
        """A shard for a job: the spare, or one started now."""
        async with self._lock:
            shard, self._spare = self._spare, None
            if shard is None or not shard.running:
                shard = await self._start()
            self._busy.add(shard)
        self._refill_later(SPARE_DELAY_S)
        return shard

    def ended(self, shard: ShardProcess) -> None:
        """The shard's process is gone; so must be whatever it had started."""
        self._busy.discard(shard)
        if not self._starting and (strays := kill_strays(self._pids())):
            log.warning("Ended %d processes that a shard left behind.", len(strays))
        if not self._busy:
            self._refill_later(0)

    def prepare(self) -> None:
        """Start a spare soon."""
        self._refill_later(0)

    async def close(self) -> None:
        self._closed = True
        if self._refill is not None:
            self._refill.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._spare is not None:
            await self._spare.kill()

    def _refill_later(self, delay_s: float) -> None:
        if self._refill is not None:
            self._refill.cancel()
        self._refill = asyncio.get_running_loop().call_later(delay_s, self._begin_refill)

    def _begin_refill(self) -> None:
        task = asyncio.create_task(self._fill())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fill(self) -> None:
        async with self._lock:
            if self._closed or (self._spare is not None and self._spare.running):
                return
            self._spare = await self._start()

    def _pids(self) -> set[int]:
        spare = {self._spare} if self._spare is not None else set[ShardProcess]()
        return {shard.pid for shard in self._busy | spare}

    async def _start(self) -> ShardProcess:
        self._starting += 1
        try:
            return await ShardProcess.start(self._records_dir)
        finally:
            self._starting -= 1
