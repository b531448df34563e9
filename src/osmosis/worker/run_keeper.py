"""Keeps one claimed run going: heartbeats, its shard, and the end of both.

The lease decides. Once the platform says it is lost, or has not answered for as long as it
lasts, the shard's process group is killed at once: somebody else may be executing the run.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from contextlib import suppress
from pathlib import Path

from osmosis.evaluation.process_life import describe_exit
from osmosis.evaluation.redaction import Redactor
from osmosis.wire.runner import Claim, FinishRequest, HeartbeatRequest, RunError
from osmosis.worker.channel import (
    ABANDON,
    EXIT_ABANDONED,
    EXIT_LEASE_LOST,
    EXIT_REPORTED,
    STOP,
    ShardJob,
    ShardState,
)
from osmosis.worker.client import RunClient
from osmosis.worker.errors import LeaseLost, RunnerError
from osmosis.worker.settings import WorkerSettings
from osmosis.worker.shard_process import ShardProcess
from osmosis.worker.spare_shards import SpareShards

HEARTBEAT_S = 1.0
HEARTBEAT_SHARE = 0.25
"""Never rarer than this share of the lease."""
SHORTEST_BEAT_S = 0.1
"""What a heartbeat gets at least, however little is left of the lease."""
MAX_RESTARTS = 5
"""Restarts in a row without one more acknowledged record."""
STOP_LIMIT_S = 8.0
"""From the user's stop until the shard is killed; below the platform's own limit."""
ABANDON_LIMIT_S = 4.0
SILENCE_LIMIT_S = 60.0
"""How long a shard may say nothing before it counts as hung."""
FINISH_LIMIT_S = 3.0
"""From the end of the lease to the exit of the shard that reported the run's end."""
RESTART_DELAY_S = 0.2
LOG_TAIL_BYTES = 4000

log = logging.getLogger("osmosis.worker")


class RunKeeper:
    """One claim. :meth:`keep` returns when the run is no longer ours."""

    def __init__(
        self,
        settings: WorkerSettings,
        claim: Claim,
        run: RunClient,
        shards: SpareShards,
        *,
        directory: Path,
        token: str,
    ) -> None:
        self._settings = settings
        self._claim = claim
        self._spec = claim.spec
        self._platform_ahead_s = 0.0 if claim.now is None else claim.now - time.time()
        self._run = run
        self._shards = shards
        self._directory = directory
        self._token = token
        self._redactor = Redactor(
            [token, *claim.spec.secrets.values()]
            + [endpoint.api_key for endpoint in claim.spec.endpoints if endpoint.api_key]
        )
        self._shard: ShardProcess | None = None
        self._news = asyncio.Event()
        self._lost = asyncio.Event()
        self._stop_asked_at: float | None = None
        self._killed_because = ""
        self._abandoning = False

    @property
    def run_id(self) -> str:
        return self._spec.run_id

    @property
    def _ids(self) -> dict[str, str]:
        """What each line of the log about this run carries."""
        return {"run_id": self._spec.run_id, "run": self._spec.name}

    async def keep(self) -> None:
        """Execute the run to its end, or drop it."""
        beating = asyncio.create_task(self._beat())
        try:
            await self._supervise()
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            if self._shard is not None:
                await self._shard.kill()
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    async def abandon(self) -> None:
        """The worker ends: send what is graded, and leave the run to somebody else."""
        self._abandoning = True
        if self._shard is not None:
            await self._shard.say(ABANDON)
            with suppress(TimeoutError):
                async with asyncio.timeout(ABANDON_LIMIT_S):
                    await self._shard.wait()
            await self._shard.kill()

    # --- the shard ---------------------------------------------------------------------------

    async def _supervise(self) -> None:
        fruitless = serial = 0
        while not (self._lost.is_set() or self._abandoning):
            serial += 1
            status, acknowledged = await self._run_shard(serial)
            if self._lost.is_set() or status in (EXIT_REPORTED, EXIT_LEASE_LOST, EXIT_ABANDONED):
                return
            if self._stop_asked_at is not None:
                await self._finish(FinishRequest(status="stopped", stop_reason="user"))
                return
            fruitless = 0 if acknowledged else fruitless + 1
            how = self._killed_because or describe_exit(status)
            log.warning("The shard ended (%s).%s", how, self._last_words(), extra=self._ids)
            if fruitless > MAX_RESTARTS:
                await self._give_up(how)
                return
            await asyncio.sleep(RESTART_DELAY_S)

    async def _run_shard(self, serial: int) -> tuple[int, int]:
        """(exit status, records acknowledged) of one shard process."""
        work_dir = self._directory / f"shard-{serial}"
        work_dir.mkdir(parents=True)
        self._killed_because = ""
        self._shard = shard = await self._shards.take()
        if self._abandoning or self._lost.is_set():
            await shard.kill()
            self._shards.ended(shard)
            return EXIT_ABANDONED, 0
        job = ShardJob(
            url=self._settings.url,
            token=self._token,
            claim=self._claim,
            work_dir=str(work_dir),
            cache_dir=str(self._settings.cache_dir(self._spec.workspace_id)),
            ledger_dir=str(self._settings.ledger_dir),
            private_dirs=[str(self._settings.directory)],
            platform_ahead_s=self._platform_ahead_s,
        )
        await shard.give(job, self._on_state)
        if self._stop_asked_at is not None:
            await shard.say(STOP)
        try:
            status = await shard.wait()
        finally:
            self._shards.ended(shard)
        await asyncio.to_thread(shutil.rmtree, work_dir, ignore_errors=True)
        return status, shard.state.acknowledged

    def _on_state(self, state: ShardState) -> None:
        self._news.set()

    async def _kill(self, why: str) -> None:
        if self._shard is not None:
            self._killed_because = why
            await self._shard.kill()

    def _last_words(self) -> str:
        """The end of the shard's own log, without secret values."""
        try:
            raw = (self._directory / "shard.log").read_bytes()[-LOG_TAIL_BYTES:]
        except OSError:
            return ""
        return "\n" + self._redactor.text(raw.decode("utf-8", "replace")).rstrip() if raw else ""

    # --- the lease ---------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Heartbeats until the lease is lost; sooner than due when there is a new stage."""
        loop = asyncio.get_running_loop()
        lease_s = self._claim.lease_s
        # From the asking on, not from the answer: the platform may have counted since then.
        held_until = loop.time() + lease_s
        told: HeartbeatRequest | None = None
        while not self._lost.is_set():
            request, asked_at = self._request(), loop.time()
            try:
                left_s = max(SHORTEST_BEAT_S, held_until - asked_at)
                answer = await self._run.heartbeat(request, timeout_s=left_s)
            except LeaseLost as error:
                await self._drop(str(error))
                return
            except RunnerError as error:
                if loop.time() >= held_until:
                    await self._drop(f"no heartbeat was answered in time: {error}")
                    return
            else:
                lease_s, told = answer.lease_s, request
                held_until = asked_at + lease_s
                if answer.stop:
                    await self._ask_to_stop()
            await self._check_shard()
            self._news.clear()
            if told is None or told.stage == self._request().stage:
                pause_s = min(HEARTBEAT_S, lease_s * HEARTBEAT_SHARE, held_until - loop.time())
                await self._pause(told, max(0.0, pause_s))

    async def _pause(self, told: HeartbeatRequest | None, pause_s: float) -> None:
        """Until the next beat is due, or the stage has changed."""
        loop = asyncio.get_running_loop()
        due = loop.time() + pause_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                while told is None or self._request().stage == told.stage:
                    await self._news.wait()
                    self._news.clear()

    def _request(self) -> HeartbeatRequest:
        state = self._shard.state if self._shard is not None else ShardState()
        return HeartbeatRequest(
            stage=state.stage,
            in_flight=state.in_flight,
            waiting_for=state.waiting_for,
            effective=state.effective,
            loop_lag_ms=state.loop_lag_ms,
        )

    async def _check_shard(self) -> None:
        loop = asyncio.get_running_loop()
        if self._stop_asked_at is not None and loop.time() - self._stop_asked_at > STOP_LIMIT_S:
            await self._kill("it did not stop in time")
        elif self._shard is not None and loop.time() - self._shard.last_sign > SILENCE_LIMIT_S:
            await self._kill(f"it said nothing for {SILENCE_LIMIT_S:.0f} s")

    async def _ask_to_stop(self) -> None:
        if self._stop_asked_at is None:
            self._stop_asked_at = asyncio.get_running_loop().time()
            if self._shard is not None:
                await self._shard.say(STOP)

    async def _drop(self, why: str) -> None:
        self._lost.set()
        if self._shard is not None and self._shard.state.finishing:
            # The report ended the lease; the shard is about to exit by itself.
            with suppress(TimeoutError):
                async with asyncio.timeout(FINISH_LIMIT_S):
                    await self._shard.wait()
                    return
        log.warning("The run is dropped: %s", why, extra=self._ids)
        await self._kill("the lease is lost")

    async def _give_up(self, how: str) -> None:
        await self._finish(
            FinishRequest(
                status="failed",
                error=RunError(
                    kind="worker_lost",
                    message=f"The process that executes the run ended {MAX_RESTARTS + 1} times in "
                    f"a row without a result ({how}).",
                    hint="The worker's log has its last words; out of memory is the usual cause. "
                    "Retry the run: what is graded is kept.",
                ),
            )
        )

    async def _finish(self, request: FinishRequest) -> None:
        """Report the end in the shard's place, while the lease lasts."""
        while not self._lost.is_set():
            try:
                await self._run.finish(request)
            except LeaseLost:
                return
            except RunnerError as error:
                log.warning("The end cannot be reported yet: %s", error, extra=self._ids)
                await asyncio.sleep(HEARTBEAT_S)
            else:
                return
