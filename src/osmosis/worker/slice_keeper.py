"""Keeps one slice of a run going: its shard process, started again whenever it dies.

What a death costs is this slice's alone: the others neither wait for it nor start anew.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from osmosis.evaluation.process_life import describe_exit
from osmosis.evaluation.redaction import Redactor
from osmosis.evaluation.slice import Slice
from osmosis.wire.runner import EvaluationSpec, FinishRequest, RunError
from osmosis.worker.channel import (
    ABANDON,
    EXIT_ABANDONED,
    EXIT_ENDED,
    EXIT_LEASE_LOST,
    ShardJob,
    ShardState,
    log_of_slice,
)
from osmosis.worker.shard_process import ShardProcess
from osmosis.worker.shards import Shards

MAX_RESTARTS = 5
"""Restarts in a row without one more acknowledged record."""
ABANDON_LIMIT_S = 4.0
SILENCE_LIMIT_S = 60.0
"""How long a shard may say nothing before it counts as hung."""
RESTART_DELAY_S = 0.2
LOG_TAIL_BYTES = 4000

log = logging.getLogger("osmosis.worker")

MakeJob = Callable[[Slice, Path], ShardJob]
"""The job of a shard for the slice that works in the directory."""


class SliceKeeper:
    """One slice. :meth:`keep` returns when it has ended, or is no longer ours."""

    def __init__(
        self,
        part: Slice,
        spec: EvaluationSpec,
        shards: Shards,
        *,
        make_job: MakeJob,
        directory: Path,
        redactor: Redactor,
        ids: dict[str, str],
        on_state: Callable[[SliceKeeper], None],
    ) -> None:
        self._slice = part
        self._spec = spec
        self._shards = shards
        self._make_job = make_job
        self._directory = directory
        self._redactor = redactor
        self._ids = ids
        self._on_state = on_state
        self._shard: ShardProcess | None = None
        self._word: bytes | None = None
        self._dropped = False
        self._killed_because = ""
        self.state = ShardState()
        """What the last shard said."""

    @property
    def index(self) -> int:
        return self._slice.index

    async def keep(self) -> FinishRequest | None:
        """How the slice ended; None when it was dropped before that."""
        fruitless = serial = 0
        while not self._dropped:
            serial += 1
            status, acknowledged = await self._run_shard(serial)
            if self._dropped or status in (EXIT_LEASE_LOST, EXIT_ABANDONED):
                return None
            if status == EXIT_ENDED and self.state.end is not None:
                return self.state.end
            if self._word is not None:
                return FinishRequest(status="stopped")
            fruitless = 0 if acknowledged else fruitless + 1
            how = self._killed_because or describe_exit(status)
            log.warning("The shard ended (%s).%s", how, self._last_words(), extra=self._ids)
            if fruitless > MAX_RESTARTS:
                return _given_up(how)
            await asyncio.sleep(RESTART_DELAY_S)
        return None

    async def say(self, word: bytes) -> None:
        """Tell the shard, and whichever takes its place."""
        self._word = word
        if self._shard is not None:
            await self._shard.say(word)

    async def abandon(self) -> None:
        """Let what is graded be sent, for a moment, and end it."""
        self._dropped = True
        if self._shard is not None:
            await self._shard.say(ABANDON)
            with suppress(TimeoutError):
                async with asyncio.timeout(ABANDON_LIMIT_S):
                    await self._shard.wait()
            await self._shard.kill()

    async def drop(self, why: str) -> None:
        """End it at once and for good."""
        self._dropped = True
        await self.kill(why)

    async def kill(self, why: str) -> None:
        """End the shard; unless the slice was told to stop, another takes its place."""
        if self._shard is not None:
            self._killed_because = why
            await self._shard.kill()

    async def check(self) -> None:
        """Kill a shard that hangs."""
        now = asyncio.get_running_loop().time()
        if self._shard is not None and now - self._shard.last_sign > SILENCE_LIMIT_S:
            await self.kill(f"it said nothing for {SILENCE_LIMIT_S:.0f} s")

    async def _run_shard(self, serial: int) -> tuple[int, int]:
        """(exit status, records acknowledged) of one shard process."""
        work_dir = self._directory / f"shard-{self._slice.index}-{serial}"
        work_dir.mkdir(parents=True)
        self._killed_because = ""
        self.state = ShardState()
        self._shard = shard = await self._shards.take(self._spec)
        try:
            if self._dropped:
                await shard.kill()
                return EXIT_ABANDONED, 0
            await shard.give(self._make_job(self._slice, work_dir), self._hear)
            if self._word is not None:
                await shard.say(self._word)
            status = await shard.wait()
        finally:
            self._shards.ended(shard)
        await asyncio.to_thread(shutil.rmtree, work_dir, ignore_errors=True)
        return status, shard.state.acknowledged

    def _hear(self, state: ShardState) -> None:
        self.state = state
        self._on_state(self)

    def _last_words(self) -> str:
        """The end of the shards' own log, without secret values."""
        try:
            raw = log_of_slice(self._directory, self._slice).read_bytes()[-LOG_TAIL_BYTES:]
        except OSError:
            return ""
        return "\n" + self._redactor.text(raw.decode("utf-8", "replace")).rstrip() if raw else ""


def _given_up(how: str) -> FinishRequest:
    return FinishRequest(
        status="failed",
        error=RunError(
            kind="worker_lost",
            message=f"The process that executes the run ended {MAX_RESTARTS + 1} times in "
            f"a row without a result ({how}).",
            hint="The worker's log has its last words; out of memory is the usual cause. "
            "Retry the run: what is graded is kept.",
        ),
    )
