"""Runs one evaluation: start everything, drive every open sample, record each exactly once.

    evaluate()
      start-up        gateway and model check  |  environment, then rollout process
      lanes           as many as samples may be in flight: next sample, drive, record
      keeper          replaces a rollout process that died, judges the samples that were in it
      teardown        bounded; nothing that an evaluation started outlives it

Whatever ends a run early is a RunFailed and becomes the outcome's error. Samples without a
record then stay pending; they are never invented.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from osmosis.evaluation.admission import Admission
from osmosis.evaluation.classification import Classified, classify
from osmosis.evaluation.crash_isolation import Cause, CrashIsolation
from osmosis.evaluation.driver import (
    TEARDOWN_ALLOWANCE_S,
    AdmissionRefused,
    Expired,
    ProcessLost,
    ProtocolBroken,
    RolloutResult,
    TryLost,
    cancel,
    deadline_s,
    drive,
)
from osmosis.evaluation.effective import (
    effective_values,
    samples_in_flight,
    warn_about_limits,
    warn_about_short_secrets,
)
from osmosis.evaluation.key_watch import KeyWatch
from osmosis.evaluation.limit_waits import limit_wait_text
from osmosis.evaluation.parts import Parts, SessionPart
from osmosis.evaluation.plan import Done, EvaluationPlan, Outcome, RowSource, Sink
from osmosis.evaluation.real_parts import real_parts
from osmosis.evaluation.recorder import Recorder, TryFacts, now, request_extra_fields
from osmosis.evaluation.redacting_sink import RedactingSink
from osmosis.evaluation.redaction import Redactor
from osmosis.evaluation.rollout_host import RolloutHost
from osmosis.evaluation.rollout_link import CloseReason, RolloutLink
from osmosis.evaluation.sample import Sample
from osmosis.evaluation.sample_output import OutputBook
from osmosis.evaluation.start_up import Started, StartUp
from osmosis.wire.errors import OsmosisError, RunFailed
from osmosis.wire.runner import RunError

STOP_CANCEL_S = 1.0
STOP_GRACE_S = 3.0
"""For lanes that are recording when a stop comes; what is graded by then is kept."""
TEARDOWN_S = 4.0
EARLY_END_FLUSH_S = 3.0
MAX_LOST_TRIES = 3
LOST_TRY_DELAY_S = 0.5
PROGRESS_INTERVAL_S = 0.5
SLOW_SAMPLE_S = 30.0
"""From here on the run names the sample that it is waiting for."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running evaluation is doing just now."""

    in_flight: int
    waiting_for: str | None = None


async def evaluate(
    plan: EvaluationPlan,
    rows: RowSource,
    done: Done,
    sink: Sink,
    stop: asyncio.Event,
    *,
    parts: Parts | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Run ``plan`` to its end, or until ``stop`` is set. Never raises for a run's own failure."""
    evaluation = Evaluation(
        plan, rows, done, sink, parts=parts or real_parts(), on_progress=on_progress
    )
    work = asyncio.create_task(evaluation.run())
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            await evaluation.stop()
        return await work
    finally:
        stopped.cancel()
        work.cancel()
        await asyncio.gather(stopped, work, return_exceptions=True)


class Evaluation:
    """The state of one run. Use :func:`evaluate`."""

    def __init__(
        self,
        plan: EvaluationPlan,
        rows: RowSource,
        done: Done,
        sink: Sink,
        *,
        parts: Parts,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._plan = plan
        self._parts = parts
        self._done = done
        self._on_progress = on_progress
        self._admission = Admission(rows, plan.n, done)
        self._outputs = OutputBook()
        self._redactor = Redactor(
            [*plan.secrets.values(), *(e.api_key for e in plan.endpoints if e.api_key)]
        )
        self._sink = RedactingSink(sink, self._redactor)
        self._keys = KeyWatch()
        self._deadline_s = deadline_s(plan.agent_workflow_timeout_s, plan.grader_timeout_s)
        self._gateway = parts.make_gateway(plan, self._redactor, self._sink)
        self._started = Started()
        self._starting: asyncio.Task[None] | None = None
        self._lanes: list[asyncio.Task[None]] = []
        self._background: set[asyncio.Task[Any]] = set()
        self._lost: list[tuple[Sample, TryFacts]] = []
        self._started_at: dict[Sample, float] = {}
        self._failure: RunFailed | None = None
        self._stopping = False
        self._host: RolloutHost
        self._isolation: CrashIsolation
        self._recorder: Recorder

    async def run(self) -> Outcome:
        """From nothing to the outcome, everything torn down."""
        try:
            outcome = await self._run()
        except RunFailed as error:
            outcome = self._failed(error)
        except OsmosisError as error:
            outcome = self._failed(RunFailed("internal", error.message, hint=error.hint))
        finally:
            await self._tear_down()
        if outcome.status != "finished":
            await _within(EARLY_END_FLUSH_S, self._sink.flush())
        return outcome

    async def stop(self) -> None:
        """End early: cancel what runs, keep what is graded. Returns at once or in seconds."""
        self._stopping = True
        self._admission.close()
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
        elif self._lanes:
            await self._abandon_tries()

    async def _run(self) -> Outcome:
        if self._plan.selected_rows and len(self._done) >= self._plan.selected_rows * self._plan.n:
            return await self._summarize()
        if await self._start_up():
            await self._run_samples()
        if self._failure is not None:
            return self._failed(self._failure)
        if self._stopping:
            return Outcome("stopped", stop_reason="user")
        return await self._summarize()

    async def _summarize(self) -> Outcome:
        await self._sink.stage("summarizing")
        await self._sink.flush()
        return Outcome("finished")

    def _failed(self, error: RunFailed) -> Outcome:
        text = self._redactor.text(error.message)
        hint = self._redactor.text(error.hint) if error.hint else None
        self._sink.log("error", "run", text, {"kind": error.kind, "hint": hint})
        return Outcome("failed", RunError(kind=error.kind, message=text, hint=hint))

    # --- start-up ----------------------------------------------------------------------------

    async def _start_up(self) -> bool:
        """True once samples can run; False when a stop came first."""
        start_up = StartUp(
            self._plan,
            self._sink,
            self._parts,
            self._gateway,
            started=self._started,
            on_output=self._outputs.add,
        )
        self._starting = asyncio.create_task(start_up.run())
        if self._stopping:
            self._starting.cancel()
        try:
            await self._starting
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return False
        return not self._stopping

    # --- running -----------------------------------------------------------------------------

    async def _run_samples(self) -> None:
        plan = self._plan
        process, environment = self._started.all()
        model = self._gateway.describe()
        advertised = process.max_concurrent
        in_flight = samples_in_flight(plan, advertised)
        await self._sink.effective(effective_values(plan, process, environment, model))
        warn_about_limits(plan, advertised, self._sink)
        warn_about_short_secrets(plan, self._sink)
        self._recorder = Recorder(
            self._sink,
            self._redactor,
            plan.work_dir / "outbox",
            str(model.get("model") or plan.model_path),
        )
        self._isolation = CrashIsolation(in_flight)
        self._host = RolloutHost(plan, environment, self._sink, self._parts, self._outputs.add)
        self._host.adopt(process)
        await self._sink.stage("running")
        open_samples = plan.selected_rows * plan.n - len(self._done)
        lanes = in_flight if open_samples <= 0 else min(in_flight, open_samples)
        self._lanes = [asyncio.create_task(self._lane()) for _ in range(lanes)]
        beside = [
            asyncio.create_task(self._guarded(self._keep_rollout_alive())),
            asyncio.create_task(self._report_progress()),
        ]
        try:
            # A stop may cancel lanes one by one; what else they end with, they have told already.
            await asyncio.gather(*self._lanes, return_exceptions=True)
        finally:
            for task in (*beside, *self._lanes):
                task.cancel()
            await asyncio.gather(*beside, *self._lanes, return_exceptions=True)

    async def _lane(self) -> None:
        """One sample after the other, until there is none left."""
        await self._guarded(self._work_off())

    async def _work_off(self) -> None:
        while True:
            # What the provider does not take would only spend its deadline in a queue.
            await self._gateway.room()
            sample = await self._admission.next()
            if sample is None:
                return
            await self._try(sample)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Any failure in ``work`` ends the run as a whole, but lets graded samples through."""
        try:
            await work
        except RunFailed as error:
            await self._fail(error)
        except Exception as error:
            self._sink.log("error", "run", f"Internal error: {error!r}")
            await self._fail(RunFailed("internal", f"The engine failed: {error!r}"))

    async def _fail(self, error: RunFailed) -> None:
        if self._failure is None:
            self._failure = error
        self._admission.close()
        self._host.link.close("stopped")

    async def _try(self, sample: Sample) -> None:
        """One try of ``sample``, and its record when the try has a verdict."""
        sample.tries += 1
        rollout_id = os.urandom(16).hex()
        facts = TryFacts(
            rollout_id=rollout_id,
            started_at=now(),
            finished_at=0.0,
            directory=self._host.process.artifact_root / rollout_id,
        )
        verdict: Classified | None = None
        link = self._host.link
        self._started_at[sample] = facts.started_at
        self._outputs.open(facts.rollout_id)
        session = self._gateway.open_session(
            facts.rollout_id, source_row=sample.row.source_row, run_index=sample.run_index
        )
        self._host.enter()
        try:
            verdict = await self._drive(sample, facts, link, session)
        except ProcessLost:
            await self._close_session(session, facts)
            if link.close_reason != "stopped":
                self._lost.append((sample, facts))
        except TryLost as error:
            await self._close_session(session, facts)
            verdict = await self._after_lost_try(sample, link, facts.rollout_id, error)
        finally:
            session.close()
            self._outputs.close(facts.rollout_id)
            self._host.leave()
            self._started_at.pop(sample, None)
            self._admission.settled(sample)
        if verdict is not None:
            await self._record(sample, verdict, facts)

    async def _drive(
        self, sample: Sample, facts: TryFacts, link: RolloutLink, session: SessionPart
    ) -> Classified:
        plan = self._plan
        body = self._body(sample, facts.rollout_id, session)
        try:
            result = await drive(link, facts.rollout_id, body, limit_s=self._deadline_s)
        except Expired:
            await self._close_session(session, facts)
            return self._expired(link, facts)
        except (AdmissionRefused, ProtocolBroken) as error:
            await self._close_session(session, facts)
            self._later(cancel(link, [facts.rollout_id]))
            return Classified(
                "failed", error_type="rollout_protocol_error", error_message=str(error)
            )
        await self._close_session(session, facts)
        if _is_no_verdict(result):
            raise TryLost(result.err_message or "the rollout was cancelled by its own server")
        facts.sample = result.sample
        facts.trajectory = result.trajectory
        facts.queued_s = result.queued_s
        verdict = classify(
            result,
            facts.calls,
            agent_timeout_s=plan.agent_workflow_timeout_s,
            grader_timeout_s=plan.grader_timeout_s,
        )
        if verdict.error_type == "timeout":
            self._host.doubt_slots()
        self._isolation.sample_finished()
        return verdict

    def _body(self, sample: Sample, rollout_id: str, session: SessionPart) -> dict[str, Any]:
        row = sample.row
        return {
            "initial_messages": row.initial_messages,
            "label": row.label,
            "metadata": row.metadata,
            "rollout_id": rollout_id,
            "chat_completions_url": session.chat_completions_url,
            "llm_api_key": session.api_key,
            "grade": True,
            "agent_timeout_sec": self._plan.agent_workflow_timeout_s,
            "grader_timeout_sec": self._plan.grader_timeout_s,
            "extra_fields": request_extra_fields(sample),
            "judge_completions_url": session.judge_completions_url,
            "judge_api_key": session.judge_api_key,
            "compact_trajectory": True,
        }

    async def _close_session(self, session: SessionPart, facts: TryFacts) -> None:
        """No more model calls in this try; note those made and what was printed."""
        facts.finished_at = now()
        session.close()
        # One turn of the loop for the pipe's last lines, more for calls being cancelled.
        await asyncio.sleep(0)
        for _ in range(20):
            if not session.calls_in_flight:
                break
            await asyncio.sleep(0)
        facts.calls = session.calls
        facts.kept_calls = session.kept_calls
        facts.output = self._outputs.close(facts.rollout_id)

    def _expired(self, link: RolloutLink, facts: TryFacts) -> Classified:
        """The sample's own deadline passed; is it to blame, or a neighbour that blocks all?"""
        if self._host.is_silent:
            self._admission.pause()  # before this sample settles, or the run might seem over
            self._host.give_up("blocked")
            raise ProcessLost("the rollout's event loop is blocked")
        self._later(cancel(link, [facts.rollout_id]))
        self._host.doubt_slots()
        self._isolation.sample_finished()
        return Classified(
            "failed",
            error_type="timeout",
            error_message=f"No result within {self._deadline_s:g} s ({self._limits()}, and "
            f"{TEARDOWN_ALLOWANCE_S:g} s for queueing and teardown). The rollout did not end when "
            "its limits passed: code must not swallow asyncio.CancelledError."
            f"{limit_wait_text(facts.calls)}",
        )

    def _limits(self) -> str:
        plan = self._plan
        return (
            f"agent_workflow_timeout {plan.agent_workflow_timeout_s:g} s, "
            f"grader_timeout {plan.grader_timeout_s:g} s"
        )

    async def _after_lost_try(
        self, sample: Sample, link: RolloutLink, rollout_id: str, error: TryLost
    ) -> Classified | None:
        """Try again a few times; then the rollout's server is to blame."""
        if self._stopping:
            return None  # cancelled by us: the sample stays open
        sample.lost_tries += 1
        self._later(cancel(link, [rollout_id]))
        if sample.lost_tries >= MAX_LOST_TRIES:
            return Classified(
                "failed",
                error_type="rollout_protocol_error",
                error_message=f"{sample.lost_tries} tries brought no result. Last: {error}",
            )
        self._sink.log(
            "warning",
            "rollout",
            f"A try of {sample} is lost and will be repeated: {error}",
            {"rollout_id": rollout_id},
        )
        await asyncio.sleep(LOST_TRY_DELAY_S * sample.lost_tries)
        self._admission.retry([sample])
        return None

    async def _record(self, sample: Sample, verdict: Classified, facts: TryFacts) -> None:
        await self._recorder.record(sample, verdict, facts)
        if (error := self._keys.look(facts.calls)) is not None:
            raise error

    # --- the rollout process -----------------------------------------------------------------

    async def _keep_rollout_alive(self) -> None:
        while True:
            reason = await self._host.loss()
            self._admission.pause()
            clean = not self._host.may_hold_leftovers
            self._host.link.close(reason)
            await self._admission.quiet()
            if self._stopping or self._failure is not None:
                return
            lost, self._lost = self._lost, []
            how = await self._host.bury()
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
            self._admission.resume()

    async def _judge(
        self, lost: list[tuple[Sample, TryFacts]], reason: CloseReason, how: str, *, clean: bool
    ) -> None:
        """Decide who runs again, who runs apart, and who is recorded as the culprit."""
        samples = [sample for sample, _ in lost]
        if reason == "stuck":
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
            {"samples": [str(sample) for sample in samples[:20]]},
        )
        for _, facts in lost:
            self._later(self._recorder.discard(facts.directory))
        if verdict.groups:
            self._admission.isolate(verdict.groups)
        if verdict.guilty is not None:
            facts = lost[0][1]
            if reason == "blocked":
                self._admission.release_suspects()
            await self._record(verdict.guilty, self._crash_verdict(reason, how), facts)

    def _crash_verdict(self, reason: CloseReason, how: str) -> Classified:
        if reason == "blocked":
            return Classified(
                "failed",
                error_type="timeout",
                error_message="The sample blocked the rollout's event loop for longer than its "
                f"limits ({self._limits()}), and the process was killed. Await async calls, and "
                "run slow synchronous code with 'await asyncio.to_thread(...)'.",
            )
        return Classified(
            "failed",
            error_type="rollout_crashed",
            error_message=f"The rollout process ended each time this sample ran alone in it "
            f"({how}). Look for os._exit, a crash in a native library, or too much memory; the "
            "run's log holds what the process printed last.",
        )

    # --- beside the lanes --------------------------------------------------------------------

    async def _report_progress(self) -> None:
        if self._on_progress is None:
            return
        while True:
            self._on_progress(Progress(len(self._started_at), self._waiting_for()))
            await asyncio.sleep(PROGRESS_INTERVAL_S)

    def _waiting_for(self) -> str | None:
        """The oldest sample in flight, once it is remarkably old."""
        if not self._started_at:
            return None
        sample, started_at = next(iter(self._started_at.items()))
        age_s = now() - started_at
        if age_s < SLOW_SAMPLE_S:
            return None
        return f"{sample}: {age_s:.0f} s of at most {self._deadline_s:.0f} s"

    def _later(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run ``work`` beside the lanes: no slot waits for it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _abandon_tries(self) -> None:
        """Cancel everything in flight; lanes that are recording get a moment to finish."""
        link = self._host.link
        await cancel(link, None, timeout_s=STOP_CANCEL_S)
        link.close("stopped")
        await asyncio.wait(self._lanes, timeout=STOP_GRACE_S)
        for lane in self._lanes:
            lane.cancel()

    async def _tear_down(self) -> None:
        """End every part, each within its bound, whatever the others do."""
        for task in self._background:
            task.cancel()
        endings: list[Coroutine[Any, Any, Any]] = [self._gateway.close()]
        if hasattr(self, "_host"):
            endings.append(self._host.close())
        elif self._started.process is not None:
            endings.append(self._started.process.stop(1.0))
        endings.append(self._admission.release_rows())
        await asyncio.gather(*(_within(TEARDOWN_S, ending) for ending in endings))


def _loss(reason: CloseReason, how: str) -> str:
    if reason == "blocked":
        return "The rollout process was killed because its event loop was blocked,"
    return f"The rollout process ended ({how})"


def _count(samples: list[Sample]) -> str:
    return f"{len(samples)} sample{'' if len(samples) == 1 else 's'}"


def _is_no_verdict(result: RolloutResult) -> bool:
    """Cancelled, or given up for missing polls: nobody's failure, so the sample runs again."""
    return result.status == "cancelled" or result.err_category == "lease_expired"


async def _within(limit_s: float, work: Coroutine[Any, Any, Any]) -> None:
    """Await ``work`` for ``limit_s`` at most; what goes wrong at the end does not matter."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(limit_s):
            await work
