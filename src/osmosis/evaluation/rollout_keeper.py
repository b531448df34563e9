"""Replaces a rollout process that died, and decides what becomes of the samples that were in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from osmosis.evaluation.admission import PROCESS_LOST, Admission
from osmosis.evaluation.background import Background
from osmosis.evaluation.classification import Classified
from osmosis.evaluation.crash_isolation import Cause, CrashIsolation
from osmosis.evaluation.deadlines import Deadlines
from osmosis.evaluation.fault_watch import Ended
from osmosis.evaluation.recorder import Recorder, TryFacts
from osmosis.evaluation.redacting_sink import RedactingSink
from osmosis.evaluation.rollout_host import RolloutHost
from osmosis.evaluation.rollout_link import CloseReason
from osmosis.evaluation.sample import Sample
from osmosis.evaluation.tries import Tries
from osmosis.wire.errors import RunFailed

NAMED_SAMPLES = 20


class RolloutKeeper:
    """Runs beside the lanes. Samples that a death interrupts owe it nothing: their limits start
    anew with their next try, and it is not counted as a try of theirs."""

    def __init__(
        self,
        *,
        deadlines: Deadlines,
        host: RolloutHost,
        admission: Admission,
        isolation: CrashIsolation,
        tries: Tries,
        recorder: Recorder,
        record: Callable[[Ended], Awaitable[None]],
        sink: RedactingSink,
        background: Background,
    ) -> None:
        self._deadlines = deadlines
        self._host = host
        self._admission = admission
        self._isolation = isolation
        self._tries = tries
        self._recorder = recorder
        self._record = record
        self._sink = sink
        self._background = background

    async def run(self) -> None:
        """Until the run ends; RunFailed when no process gets a single sample through."""
        while True:
            reason = await self._host.loss()
            self._admission.pause(PROCESS_LOST)
            clean = not self._host.may_hold_leftovers
            self._host.link.close(reason)
            await self._admission.quiet()
            if self._admission.closed:
                return
            lost, self._tries.lost = self._tries.lost, []
            how = await self._host.bury()
            if reason == "refused":
                how = "its server refused connections"
            await self._judge(lost, reason, how, clean=clean)
            if self._isolation.hopeless:
                raise RunFailed(
                    "rollout_crashed",
                    f"The rollout process ended {self._isolation.restarts} times in a row without "
                    f"a single sample getting through. Last: {how}.",
                    hint="The log shows what it printed before it ended. Run one row locally to "
                    "reproduce it; the remaining samples stay pending.",
                )
            await self._host.restart()
            self._admission.resume(PROCESS_LOST)

    async def _judge(
        self, lost: list[tuple[Sample, TryFacts]], reason: CloseReason, how: str, *, clean: bool
    ) -> None:
        """Decide who runs again, who runs apart, and who is recorded as the culprit."""
        samples = [sample for sample, _ in lost]
        if reason == "stuck":
            self._interrupt(lost)
            self._admission.retry(samples)
            return
        cause: Cause = "died"
        if reason == "blocked":
            cause = "blocked" if clean else "died"
        elif "SIGKILL" in how:
            cause = "killed"
        verdict = self._isolation.process_lost(samples, cause)
        self._sink.log(
            "error",
            "rollout",
            f"{_loss(reason, how)} with {_count(samples)} in it; it is started again.",
            {"samples": [str(sample) for sample in samples[:NAMED_SAMPLES]]},
        )
        if len(lost) > 1:
            self._interrupt(lost)
        for _, facts in lost:
            self._background.later(self._recorder.discard(facts.directory))
        if verdict.groups:
            self._admission.isolate(verdict.groups)
        if verdict.guilty is not None:
            if reason == "blocked":
                self._admission.release_suspects()
            crash = self._crash_verdict(reason, how)
            await self._record(Ended(verdict.guilty, crash, lost[0][1]))

    def _interrupt(self, lost: list[tuple[Sample, TryFacts]]) -> None:
        for sample, facts in lost:
            sample.interrupted(facts.calls)

    def _crash_verdict(self, reason: CloseReason, how: str) -> Classified:
        if reason == "blocked":
            limits = self._deadlines
            return Classified(
                "failed",
                error_type="timeout",
                error_message="The sample blocked the rollout's event loop for longer than its "
                f"limits (agent_workflow_timeout {limits.agent_s:g} s, grader_timeout "
                f"{limits.grader_s:g} s), and the process was killed. Await async calls, and "
                "run slow synchronous code with 'await asyncio.to_thread(...)'.",
            )
        if reason == "refused":
            return Classified(
                "failed",
                error_type="rollout_crashed",
                error_message="The rollout's server refused connections each time this sample ran "
                "alone in it, while its process lived on. Look for code that ends the server, or "
                "uses up the file descriptors of its process.",
            )
        return Classified(
            "failed",
            error_type="rollout_crashed",
            error_message=f"The rollout process ended each time this sample ran alone in it "
            f"({how}). Look for os._exit, a crash in a native library, or too much memory; the "
            "run's log holds what the process printed last.",
        )


def _loss(reason: CloseReason, how: str) -> str:
    if reason == "blocked":
        return "The rollout process was killed because its event loop was blocked,"
    if reason == "refused":
        return "The rollout process was killed because its server refused connections,"
    return f"The rollout process ended ({how})"


def _count(samples: list[Sample]) -> str:
    return f"{len(samples)} sample{'' if len(samples) == 1 else 's'}"
