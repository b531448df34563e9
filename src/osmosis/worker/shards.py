"""The shard processes of a worker, and the nurseries that they are forked from.

A plain nursery lives as long as the worker: a shard costs a fork. One with LiteLLM loaded is made
when a second shard needs that, or when the first one has ended: the first is soonest at work when
it imports LiteLLM by itself, beside cloning and installing. It goes once no shard has needed it
for a while.

A nursery that dies costs its shards nothing, and the next shard the wait for a new one. Where
nothing can be forked a shard is started plainly.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path

from osmosis.wire.runner import EvaluationSpec
from osmosis.worker.litellm_use import uses_litellm
from osmosis.worker.nursery_process import EXIT_UNFORKABLE, NurseryLost, NurseryProcess
from osmosis.worker.own_child import CAN_FORK
from osmosis.worker.shard_process import ShardProcess, shard_environment
from osmosis.worker.strays import kill_strays

LITELLM_IDLE_S = 300.0
"""How long LiteLLM stays loaded after the last shard that needed it."""
TRIES = 2
"""Nurseries that are asked for one shard before it is started plainly."""
PLAIN_S = 600.0
"""How long shards are started plainly once that many nurseries in a row gave none."""
LITELLM_SETTING = "LITELLM_"
"""Variables that LiteLLM reads when it is imported: a run that sets one has its own import."""

log = logging.getLogger("osmosis.worker")


class Shards:
    """All shards of a worker. One that was taken is reported back by :meth:`ended`."""

    def __init__(self, records_dir: Path) -> None:
        self._records_dir = records_dir
        self._nurseries: dict[bool, NurseryProcess] = {}
        """By whether LiteLLM is loaded."""
        self._unforkable: set[bool] = set()
        """Likewise: nurseries of this kind cannot fork here."""
        self._alive: set[NurseryProcess] = set()
        """Those not collected yet."""
        self._busy: set[ShardProcess] = set()
        self._with_litellm: set[ShardProcess] = set()
        self._starting = 0
        self._plain_until = 0.0
        self._idle: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def take(self, spec: EvaluationSpec) -> ShardProcess:
        """A shard for a run."""
        litellm = _wants_litellm(spec)
        preloaded = litellm and bool(self._with_litellm or True in self._nurseries)
        if litellm and self._idle is not None:
            self._idle.cancel()
        shard = await self._fork(litellm=True) if preloaded else None
        shard = shard or await self._fork(litellm=False) or await self._start()
        self._busy.add(shard)
        if litellm:
            self._with_litellm.add(shard)
        return shard

    def ended(self, shard: ShardProcess) -> None:
        """The shard's process is gone; so must be whatever it had started."""
        self._busy.discard(shard)
        if not self._starting and (strays := kill_strays(self._pids())):
            log.warning("Ended %d processes that a shard left behind.", len(strays))
        if shard in self._with_litellm:
            self._with_litellm.discard(shard)
            if self._may_fork(litellm=True) and not self._closed:
                self._nursery(litellm=True)
                self._drop_when_idle()

    def prepare(self) -> None:
        """Make the next shard cheap."""
        if self._may_fork(litellm=False):
            self._nursery(litellm=False)

    async def close(self) -> None:
        self._closed = True
        if self._idle is not None:
            self._idle.cancel()
        for nursery in self._alive:
            nursery.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- starting ----------------------------------------------------------------------------

    async def _fork(self, *, litellm: bool) -> ShardProcess | None:
        """A shard of the nursery; None when none can be had."""
        loop = asyncio.get_running_loop()
        if not self._may_fork(litellm=litellm) or loop.time() < self._plain_until:
            return None
        for _ in range(TRIES):
            ours, theirs = socket.socketpair()
            self._starting += 1
            try:
                with theirs:
                    pid = await self._nursery(litellm=litellm).fork(theirs)
                return await ShardProcess.forked(pid, ours, self._records_dir)
            except NurseryLost as error:
                ours.close()
                log.warning("A process that shards are forked from is lost: %s.", error)
            finally:
                self._starting -= 1
        self._plain_until = loop.time() + PLAIN_S
        return None

    def _may_fork(self, *, litellm: bool) -> bool:
        return CAN_FORK and litellm not in self._unforkable

    def _nursery(self, *, litellm: bool) -> NurseryProcess:
        nursery = self._nurseries.get(litellm)
        if nursery is None or not nursery.usable:
            nursery = self._nurseries[litellm] = NurseryProcess.start(
                shard_environment(os.environ), self._records_dir, litellm=litellm
            )
            self._alive.add(nursery)
            task = asyncio.create_task(self._forget(nursery, litellm=litellm))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return nursery

    async def _forget(self, nursery: NurseryProcess, *, litellm: bool) -> None:
        status = await nursery.wait()
        self._alive.discard(nursery)
        if status == EXIT_UNFORKABLE:
            self._unforkable.add(litellm)

    async def _start(self) -> ShardProcess:
        self._starting += 1
        try:
            return await ShardProcess.start(self._records_dir)
        finally:
            self._starting -= 1

    # --- dropping ----------------------------------------------------------------------------

    def _drop_when_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(LITELLM_IDLE_S, self._drop)

    def _drop(self) -> None:
        if not self._with_litellm and (nursery := self._nurseries.pop(True, None)):
            nursery.kill()

    # --- helpers -----------------------------------------------------------------------------

    def _pids(self) -> set[int]:
        return {process.pid for process in (*self._busy, *self._alive)}


def _wants_litellm(spec: EvaluationSpec) -> bool:
    own_import = any(name.startswith(LITELLM_SETTING) for name in (*spec.env, *spec.secrets))
    return uses_litellm(spec) and not own_import
