"""Keeps one rollout process alive for a run: notices its death, its silence, its lost slots.

The host only watches and replaces; what becomes of the samples is the engine's decision.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from osmosis.evaluation.parts import OnOutput, Parts, RolloutPart
from osmosis.evaluation.plan import EvaluationPlan, Sink
from osmosis.evaluation.rollout_link import CloseReason, LinkBroken, LinkClosed, RolloutLink
from osmosis.evaluation.strict_json import loads
from osmosis.wire.errors import RunFailed

PROBE_AFTER_S = 2.0
"""Silence on all requests after which the server is asked whether it is there."""
BLOCKED_GRACE_S = 3.0
"""How much longer than a sample's own limits its event loop may be blocked."""
BLOCKED_WARNING_S = 5.0
REFUSED_LIMIT_S = 10.0
"""How long a living process may refuse connections."""
SLOT_CHECK_AFTER_S = 5.0
"""Time for a cancelled rollout to leave its slot."""
SLOT_CHECKS, SLOT_PROOFS = 12, 3
SLOT_CHECK_INTERVAL_S = 0.5
HEALTH_TIMEOUT_S = 5.0
RESTART_TRIES = 3
START_FAILURES = ("rollout_start_failed", "rollout_unhealthy")
KILL_GRACE_S = 0.2
STOP_GRACE_S = 3.0


class RolloutHost:
    """The rollout process of a run, one life after the other."""

    def __init__(
        self,
        plan: EvaluationPlan,
        environment: Any,
        sink: Sink,
        parts: Parts,
        on_output: OnOutput,
    ) -> None:
        self._plan = plan
        self._environment = environment
        self._sink = sink
        self._parts = parts
        self._on_output = on_output
        self._loss: asyncio.Future[CloseReason] = asyncio.get_running_loop().create_future()
        self._watchers: list[asyncio.Task[None]] = []
        self._silent_since: float | None = None
        self._slots_in_doubt = asyncio.Event()
        self._in_flight = 0
        self._block_limit_s = BLOCKED_GRACE_S + max(
            plan.agent_workflow_timeout_s, plan.grader_timeout_s, 0
        )
        self.link: RolloutLink
        self.process: RolloutPart
        self.may_hold_leftovers = False
        """True once a try of this life ended by a clock: its code may still be running."""

    def adopt(self, process: RolloutPart) -> None:
        """Watch a process that was just started, and open a link to it."""
        self.process = process
        self.link = RolloutLink(process.base_url, process.open_socket)
        self.may_hold_leftovers = False
        self._silent_since = None
        self._slots_in_doubt.clear()
        self._loss = asyncio.get_running_loop().create_future()
        self._watchers = [
            asyncio.create_task(watch)
            for watch in (self._watch_exit(), self._watch_silence(), self._watch_slots())
        ]

    async def loss(self) -> CloseReason:
        """Wait until this life of the process is over."""
        return await asyncio.shield(self._loss)

    def give_up(self, reason: CloseReason) -> None:
        """This life of the process is over, whatever it does; first reason wins."""
        if not self._loss.done():
            self._loss.set_result(reason)

    def enter(self) -> None:
        """A try starts."""
        self._in_flight += 1

    def leave(self) -> None:
        """A try is over."""
        self._in_flight -= 1

    def doubt_slots(self) -> None:
        """A rollout was cancelled or timed out: see to it that it gives its slot back."""
        self.may_hold_leftovers = True
        self._slots_in_doubt.set()

    @property
    def is_silent(self) -> bool:
        """True while the server leaves a health request unanswered for a noticeable time."""
        return (
            self._silent_since is not None
            and asyncio.get_running_loop().time() - self._silent_since > HEALTH_TIMEOUT_S
        )

    async def bury(self) -> str:
        """End what is left of this life; returns how the process ended."""
        await self._stop_watching()
        found_dead = self.process.exited.is_set()
        description = self.process.exit_description() if found_dead else ""
        await self.process.stop(KILL_GRACE_S)
        return description or self.process.exit_description()

    async def restart(self) -> None:
        """Start the next life. Raises RunFailed when it does not come up.

        It came up before with the same code, so a start that fails is tried again: whatever ended
        the last life may have hit the new one before it answered.
        """
        for tries_left in reversed(range(RESTART_TRIES)):
            try:
                process = await self._parts.start_rollout(
                    self._plan, self._environment, self._sink, self._on_output
                )
            except RunFailed as failed:
                if not tries_left or failed.kind not in START_FAILURES:
                    raise
                self._sink.log("warning", "rollout", f"{failed.message} It is started once more.")
            else:
                self.adopt(process)
                return

    async def close(self, grace_s: float = STOP_GRACE_S) -> None:
        """End of the run."""
        await self._stop_watching()
        await self.link.wind_down()
        await self.process.stop(grace_s)

    async def _stop_watching(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)

    async def _watch_exit(self) -> None:
        await self.process.exited.wait()
        self.give_up("exited")

    async def _watch_silence(self) -> None:
        """Probe the server when it says nothing while tries are running."""
        loop = asyncio.get_running_loop()
        refused_since: float | None = None
        while True:
            await asyncio.sleep(PROBE_AFTER_S / 2)
            if not self._in_flight or loop.time() - self.link.last_answer < PROBE_AFTER_S:
                refused_since = None
                continue
            try:
                answered = await self._probe()
            except LinkClosed:
                return
            except LinkBroken:
                refused_since = refused_since or loop.time()
                if loop.time() - refused_since > REFUSED_LIMIT_S:
                    self._sink.log("error", "rollout", "The rollout's server refuses connections.")
                    self.give_up("refused")
                    return
            else:
                refused_since = None
                if not answered:
                    self.give_up("blocked")
                    return

    async def _probe(self) -> bool:
        """One health request, as long as it takes; False when it took beyond every limit."""
        loop = asyncio.get_running_loop()
        started = self._silent_since = loop.time()
        request = asyncio.create_task(self.link.request("GET", "/health"))
        try:
            await asyncio.wait({request}, timeout=min(BLOCKED_WARNING_S, self._block_limit_s))
            if not request.done():
                self._sink.log(
                    "warning",
                    "rollout",
                    "The rollout's event loop is blocked: its server has not answered for "
                    f"{loop.time() - started:.0f} s. Run slow synchronous code with "
                    "'await asyncio.to_thread(...)'.",
                    {"killed_after_s": self._block_limit_s},
                )
                await asyncio.wait({request}, timeout=self._block_limit_s - BLOCKED_WARNING_S)
            if not request.done():
                return False
            request.result()
            self._silent_since = None
            return True
        except LinkBroken:
            self._silent_since = None
            raise
        finally:
            request.cancel()
            with contextlib.suppress(asyncio.CancelledError, LinkBroken, LinkClosed):
                await request

    async def _watch_slots(self) -> None:
        """Replace a process whose cancelled rollouts never end: they hold slots of others."""
        while True:
            await self._slots_in_doubt.wait()
            self._slots_in_doubt.clear()
            if self.process.max_concurrent is None:
                continue
            await asyncio.sleep(SLOT_CHECK_AFTER_S)
            if await self._slots_are_held():
                self._sink.log(
                    "warning",
                    "rollout",
                    "A rollout goes on after its time limit and its cancellation, and holds a "
                    "slot: the process is replaced. Code must not swallow "
                    "asyncio.CancelledError.",
                )
                self.give_up("stuck")
                return

    async def _slots_are_held(self) -> bool:
        """Whether the server is busy with more than we have in flight, seen several times.

        One look is no proof either way: a try in flight may not have reached its slot yet, and
        one that is over may be just leaving it.
        """
        proofs = 0
        for _ in range(SLOT_CHECKS):
            before = self._in_flight
            busy = await self._busy_slots()
            if busy is None:
                return False
            proofs += busy > max(before, self._in_flight)
            if proofs >= SLOT_PROOFS:
                return True
            await asyncio.sleep(SLOT_CHECK_INTERVAL_S)
        return False

    async def _busy_slots(self) -> int | None:
        """Rollouts that the server says are queued or running; None when it does not say."""
        try:
            answer = await self.link.request("GET", "/health", timeout_s=HEALTH_TIMEOUT_S)
            health = loads(answer.body)
        except (LinkBroken, LinkClosed, ValueError):
            return None
        concurrency = health.get("concurrency") if isinstance(health, dict) else None
        if not isinstance(concurrency, dict):
            return None
        running, queued = concurrency.get("running"), concurrency.get("queued")
        return running + queued if isinstance(running, int) and isinstance(queued, int) else None
