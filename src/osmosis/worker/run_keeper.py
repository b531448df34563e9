"""Keeps one claimed run going: heartbeats, its slices, and the end of all of them.

    one shard, or several            shard_count.py
    the first slice starts alone     it builds the environment and checks the models for all
    the others follow                each with its share of what the run may have in flight
    a shard dies                     its slice goes on in a new one (slice_keeper.py)
    a shard halts the run            the others start no new sample, and finish those in flight
    every slice has ended            the end of the run is reported, here and nowhere else

The lease decides. Once the platform says it is lost, or has not answered for as long as it
lasts, the shards' process groups are killed at once: somebody else may be executing the run.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections import deque
from pathlib import Path
from typing import Any

from osmosis.evaluation.plan import NO_PLACE
from osmosis.evaluation.redaction import Redactor
from osmosis.evaluation.slice import Slice
from osmosis.wire.runner import Claim, FinishRequest, HeartbeatRequest, Stage
from osmosis.worker.channel import DRAIN, STOP, ShardJob
from osmosis.worker.client import RunClient
from osmosis.worker.errors import LeaseLost, RunnerError
from osmosis.worker.run_state import effective_values, run_end, run_state
from osmosis.worker.settings import WorkerSettings
from osmosis.worker.shard_count import shard_count
from osmosis.worker.shards import Shards
from osmosis.worker.slice_keeper import ABANDON_LIMIT_S, SliceKeeper
from osmosis.worker.usable_cores import usable_cores

HEARTBEAT_S = 1.0
HEARTBEAT_SHARE = 0.25
"""Never rarer than this share of the lease."""
SHORTEST_BEAT_S = 0.1
"""What a heartbeat gets at least, however little is left of the lease."""
STOP_LIMIT_S = 8.0
"""From the user's stop until the shards are killed; below the platform's own limit."""

PREPARED: tuple[Stage, ...] = ("starting rollout", "running")
"""From here on a shard has built the environment and checked the models."""

log = logging.getLogger("osmosis.worker")


class RunKeeper:
    """One claim. :meth:`keep` returns when the run is no longer ours."""

    def __init__(
        self,
        settings: WorkerSettings,
        claim: Claim,
        run: RunClient,
        shards: Shards,
        *,
        directory: Path,
        token: str,
    ) -> None:
        self._settings = settings
        self._claim = claim
        self._spec = claim.spec
        self._platform_ahead_s = 0.0 if claim.now is None else claim.now - time.time()
        self._run = run
        self._directory = directory
        self._token = token
        redactor = Redactor(
            [token, *claim.spec.secrets.values()]
            + [endpoint.api_key for endpoint in claim.spec.endpoints if endpoint.api_key]
        )
        count = shard_count(self._spec, cores=usable_cores(), most=settings.max_shards)
        self._slices = [
            SliceKeeper(
                Slice(index, count),
                self._spec,
                shards,
                make_job=self._job,
                directory=directory,
                redactor=redactor,
                ids=self._ids,
                on_state=self._hear,
            )
            for index in range(count)
        ]
        self._places = 1
        """Slices that may be executed at once; one until it has prepared what all of them need."""
        self._placed: set[int] = set()
        """Slices without a share of their own, which take the place of another that has ended."""
        self._under_way = asyncio.Event()
        self._checked: dict[str, Any] | None = None
        self._halted: FinishRequest | None = None
        self._words: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._lost = asyncio.Event()
        self._stop_asked_at: float | None = None
        self._report: asyncio.Task[None] | None = None
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
            if (end := await self._execute()) is not None:
                self._report = asyncio.create_task(self._finish(end))
                await asyncio.wait({self._report})
        finally:
            for task in (beating, *self._words):
                task.cancel()
            await asyncio.gather(beating, *self._words, return_exceptions=True)
            await self._drop_slices("the run is over")
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    async def abandon(self) -> None:
        """The worker ends: send what is graded, and leave the run to somebody else."""
        self._abandoning = True
        await asyncio.gather(*(each.abandon() for each in self._slices))
        if self._report is not None:
            await asyncio.wait({self._report}, timeout=ABANDON_LIMIT_S)
            self._report.cancel()

    # --- the slices --------------------------------------------------------------------------

    async def _execute(self) -> FinishRequest | None:
        """How the run ended; None when it is dropped."""
        waiting, ends = deque(self._slices), list[FinishRequest]()
        running = dict[asyncio.Task[FinishRequest | None], SliceKeeper]()
        under_way = asyncio.create_task(self._under_way.wait())
        try:
            while True:
                while waiting and len(running) < self._places and not self._is_ending:
                    keeper = waiting.popleft()
                    running[asyncio.create_task(keeper.keep())] = keeper
                if not running:
                    break
                news = {under_way} if not under_way.done() else set[asyncio.Task[Any]]()
                await asyncio.wait({*running, *news}, return_when=asyncio.FIRST_COMPLETED)
                for task in [each for each in running if each.done()]:
                    keeper = running.pop(task)
                    end = task.result()
                    if end is not None and end.stop_reason == NO_PLACE:
                        waiting.append(keeper)
                        self._placed.add(keeper.index)
                    elif end is not None:
                        ends.append(end)
                        self._take_in(keeper, end)
                    elif not self._abandoning:
                        self._lost.set()
                        await self._drop_slices("the lease is lost")
        finally:
            under_way.cancel()
            for task in running:
                task.cancel()
            await asyncio.gather(under_way, *running, return_exceptions=True)
        if self._lost.is_set() or self._abandoning:
            return None
        return run_end(ends, self._halted, complete=not waiting)

    @property
    def _is_ending(self) -> bool:
        return (
            self._abandoning
            or self._lost.is_set()
            or self._stop_asked_at is not None
            or self._halted is not None
        )

    def _hear(self, keeper: SliceKeeper) -> None:
        """A shard has spoken."""
        state = keeper.state
        self._news.set()
        told = state.effective or {}
        if state.stage in PREPARED and "model" in told and not self._under_way.is_set():
            self._checked, self._places = told["model"], len(self._slices)
            self._under_way.set()
        if "in_flight" in told:
            # Each slice that is executed needs one sample at least of what may be in flight.
            self._places = max(1, min(len(self._slices), told["in_flight"]))
        if state.halted is not None:
            self._halt(keeper, state.halted)

    def _take_in(self, keeper: SliceKeeper, end: FinishRequest) -> None:
        """A slice has ended. One that left samples out ends the run."""
        if end.status == "stopped" and end.stop_reason == "user":
            self._ask_to_stop()
        elif end.status != "finished":
            self._halt(keeper, end)

    def _halt(self, keeper: SliceKeeper, why: FinishRequest) -> None:
        if self._halted is None and self._stop_asked_at is None:
            self._halted = why
            self._tell(DRAIN, [each for each in self._slices if each is not keeper])

    def _ask_to_stop(self) -> None:
        if self._stop_asked_at is None:
            self._stop_asked_at = asyncio.get_running_loop().time()
            self._tell(STOP, self._slices)

    def _tell(self, word: bytes, slices: list[SliceKeeper]) -> None:
        """Beside everything else: a shard that does not listen holds nobody up."""
        for each in slices:
            task = asyncio.create_task(each.say(word))
            self._words.add(task)
            task.add_done_callback(self._words.discard)

    async def _drop_slices(self, why: str) -> None:
        await asyncio.gather(*(each.drop(why) for each in self._slices))

    def _job(self, part: Slice, work_dir: Path) -> ShardJob:
        return ShardJob(
            url=self._settings.url,
            token=self._token,
            claim=self._claim,
            work_dir=str(work_dir),
            cache_dir=str(self._settings.cache_dir(self._spec.workspace_id)),
            ledger_dir=str(self._settings.ledger_dir),
            private_dirs=[str(self._settings.directory)],
            platform_ahead_s=self._platform_ahead_s,
            slice=part,
            has_place=part.index in self._placed,
            checked=self._checked,
        )

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
                    self._ask_to_stop()
            await self._check_slices()
            self._news.clear()
            if told is None or told.stage == self._request().stage:
                pause_s = min(HEARTBEAT_S, lease_s * HEARTBEAT_SHARE, held_until - loop.time())
                await self._pause(told, max(0.0, pause_s))

    async def _pause(self, told: HeartbeatRequest | None, pause_s: float) -> None:
        """Until the next beat is due, or the stage has changed."""
        loop = asyncio.get_running_loop()
        due = loop.time() + pause_s
        try:
            async with asyncio.timeout_at(due):
                while told is None or self._request().stage == told.stage:
                    await self._news.wait()
                    self._news.clear()
        except TimeoutError:
            return

    def _request(self) -> HeartbeatRequest:
        return run_state([each.state for each in self._slices])

    async def _check_slices(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._stop_asked_at is not None and now - self._stop_asked_at > STOP_LIMIT_S:
            await asyncio.gather(*(each.kill("it did not stop in time") for each in self._slices))
        else:
            await asyncio.gather(*(each.check() for each in self._slices))

    async def _drop(self, why: str) -> None:
        self._lost.set()
        if self._report is not None:
            return  # The report of its end ended the lease.
        log.warning("The run is dropped: %s", why, extra=self._ids)
        await self._drop_slices("the lease is lost")

    async def _finish(self, end: FinishRequest) -> None:
        """Report the end of the run, while the lease lasts."""
        effective = effective_values([each.state for each in self._slices])
        request = end.model_copy(update={"effective": effective})
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
