"""Runs one evaluation: start everything, drive every open sample, record each exactly once.

    evaluate()
      start-up        gateway and model check  |  environment, then rollout process
      lanes           as many as samples may be in flight: next sample, one try of it, record
      keeper          replaces a rollout process that died, judges the samples that were in it
      exports         records with artifacts, on their way while the lanes go on
      teardown        bounded; nothing that an evaluation started outlives it

Whatever ends a run early is a RunFailed and becomes the outcome's error. Samples without a
record then stay pending; they are never invented. A fault that all samples share (Halted) lets
those in flight end first; any other failure ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from osmosis.evaluation.admission import Admission
from osmosis.evaluation.background import Background
from osmosis.evaluation.budget import Budget
from osmosis.evaluation.crash_isolation import CrashIsolation
from osmosis.evaluation.deadlines import (
    EARLY_END_FLUSH_S,
    END_S,
    STOP_CANCEL_S,
    STOP_GRACE_S,
    Deadlines,
)
from osmosis.evaluation.driver import cancel
from osmosis.evaluation.effective import (
    effective_values,
    run_in_flight,
    samples_in_flight,
    warn_about_limits,
    warn_about_short_secrets,
)
from osmosis.evaluation.exports import Exports
from osmosis.evaluation.fault_response import FaultResponse, Halted
from osmosis.evaluation.fault_watch import Ended
from osmosis.evaluation.parts import Parts
from osmosis.evaluation.plan import (
    DRAINED,
    NO_PLACE,
    Done,
    EvaluationPlan,
    Outcome,
    RowSource,
    Sink,
)
from osmosis.evaluation.real_parts import real_parts
from osmosis.evaluation.recorder import Recorder
from osmosis.evaluation.redacting_sink import RedactingSink
from osmosis.evaluation.redaction import Redactor
from osmosis.evaluation.regrading import require_regrade
from osmosis.evaluation.rollout_host import RolloutHost
from osmosis.evaluation.rollout_keeper import RolloutKeeper
from osmosis.evaluation.sample_output import OutputBook
from osmosis.evaluation.start_up import Started, StartUp
from osmosis.evaluation.tries import Tries
from osmosis.event_loop import quiet_turn
from osmosis.wire.errors import OsmosisError, RunFailed
from osmosis.wire.runner import RunError

PROGRESS_INTERVAL_S = 0.5
LANES_A_TURN = 8
BEGIN_EVERY_S = 0.002
"""Between two lanes. Those that begin together ask together and are answered together, wave after
wave, and each then waits for all the others' work."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running evaluation is doing just now."""

    in_flight: int
    waiting_for: str | None = None
    halted: Outcome | None = None
    """Why no new sample starts, in no slice of the run; those in flight are finished."""


async def evaluate(
    plan: EvaluationPlan,
    rows: RowSource,
    done: Done,
    sink: Sink,
    stop: asyncio.Event,
    *,
    parts: Parts | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    budget: Budget | None = None,
    drain: asyncio.Event | None = None,
) -> Outcome:
    """Run ``plan`` to its end, or until ``stop`` is set. Never raises for a run's own failure.

    Once ``drain`` is set no new sample starts, and those in flight are finished.
    """
    evaluation = Evaluation(
        plan,
        rows,
        done,
        sink,
        parts=parts or real_parts(),
        on_progress=on_progress,
        budget=budget or Budget(plan.advanced),
    )
    work = asyncio.create_task(evaluation.run())
    stopped = asyncio.create_task(stop.wait())
    drained = asyncio.create_task(evaluation.drain_once(drain or asyncio.Event()))
    try:
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            await evaluation.stop()
        return await work
    finally:
        for task in (stopped, drained, work):
            task.cancel()
        await asyncio.gather(stopped, drained, work, return_exceptions=True)


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
        budget: Budget,
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
        self._deadlines = Deadlines.of(plan)
        self._gateway = parts.make_gateway(plan, self._redactor, self._sink)
        self._budget = budget
        self._budget.on_spent = self._on_budget_spent
        self._gateway.on_call = self._budget.add
        self._recorded = 0
        self._started = Started()
        self._starting: asyncio.Task[None] | None = None
        self._lanes: list[asyncio.Task[None]] = []
        self._background = Background()
        self._failure: RunFailed | None = None
        self._stopping = self._draining = self._placeless = False
        self._host: RolloutHost
        self._tries: Tries
        self._recorder: Recorder
        self._exports: Exports
        self._faults: FaultResponse

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

    async def drain_once(self, asked: asyncio.Event) -> None:
        """When ``asked``: start nothing more, and finish what is in flight."""
        await asked.wait()
        self._draining = True
        if self._starting is None or not self._starting.done():
            await self.stop()
        else:
            self._admission.close()

    async def _run(self) -> Outcome:
        if self._plan.selected_rows and len(self._done) >= self._plan.planned_samples:
            return await self._summarize()
        if self._budget.is_spent:
            return await self._out_of_budget()
        if await self._start_up():
            await self._run_samples()
        if self._failure is not None:
            return self._failed(self._failure)
        if self._stopping:
            return Outcome("stopped", stop_reason=DRAINED if self._draining else "user")
        if self._budget.is_spent and self._is_incomplete():
            return await self._out_of_budget()
        if self._placeless:
            return Outcome("stopped", stop_reason=NO_PLACE)
        if self._draining and self._is_incomplete():
            return await self._summarize(Outcome("stopped", stop_reason=DRAINED))
        return await self._summarize()

    def _on_budget_spent(self) -> None:
        """No new samples; those in flight are finished."""
        self._admission.close()
        in_flight = self._tries.in_flight
        self._sink.log(
            "warning",
            "budget",
            f"{self._budget.sentence()} No new sample starts; {in_flight} in flight are finished.",
            self._budget.describe(),
        )
        self._tell_progress()

    def _is_incomplete(self) -> bool:
        planned = self._plan.planned_samples
        return not planned or len(self._done) + self._recorded < planned

    async def _out_of_budget(self) -> Outcome:
        return await self._summarize(self._budget.outcome())

    async def _summarize(self, outcome: Outcome | None = None) -> Outcome:
        await self._sink.stage("summarizing")
        await self._sink.flush()
        return outcome or Outcome("finished")

    def _failed(self, error: RunFailed) -> Outcome:
        told = self._told(error)
        self._sink.log("error", "run", told.message, {"kind": told.kind, "hint": told.hint})
        return Outcome("failed", told)

    def _told(self, error: RunFailed) -> RunError:
        text = self._redactor.text(error.message)
        hint = self._redactor.text(error.hint) if error.hint else None
        return RunError(kind=error.kind, message=text, hint=hint)

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
        if plan.stored is not None:
            require_regrade(process, environment.sdk)
        model = self._gateway.describe()
        advertised = process.max_concurrent
        in_flight = samples_in_flight(plan, advertised)
        await self._sink.effective(effective_values(plan, process, environment, model))
        if not (plan.has_place or plan.slice.share(run_in_flight(plan, advertised))):
            self._placeless = True
            return
        if plan.slice.index == 0:
            warn_about_limits(plan, advertised, self._sink)
            warn_about_short_secrets(plan, self._sink)
        self._host = RolloutHost(plan, environment, self._sink, self._parts, self._outputs.add)
        self._host.adopt(process)
        keeper = self._assemble(in_flight, str(model.get("model") or plan.model_path))
        await self._sink.stage("running")
        open_samples = plan.planned_samples - len(self._done)
        lanes = in_flight if open_samples <= 0 else min(in_flight, open_samples)
        beside = [
            asyncio.create_task(self._guarded(keeper.run())),
            asyncio.create_task(self._report_progress()),
        ]
        try:
            await self._begin_lanes(lanes)
            # A stop may cancel lanes one by one; what else they end with, they have told already.
            await asyncio.gather(*self._lanes, return_exceptions=True)
            if self._failure is None and not self._stopping:
                await self._guarded(self._faults.finish())
            await self._exports.settled()
        finally:
            for task in (*beside, *self._lanes, *self._exports.tasks):
                task.cancel()
            await asyncio.gather(*beside, *self._lanes, return_exceptions=True)

    async def _begin_lanes(self, lanes: int) -> None:
        """One after the other, so that whatever else happens is not held up."""
        for number in range(lanes):
            if self._admission.closed:
                return
            self._lanes.append(asyncio.create_task(self._lane()))
            await asyncio.sleep(BEGIN_EVERY_S)
            if number % LANES_A_TURN == 0:
                await quiet_turn()

    def _assemble(self, in_flight: int, model_name: str) -> RolloutKeeper:
        """What the lanes work with, and the keeper that stands beside them."""
        plan, isolation = self._plan, CrashIsolation(in_flight)
        self._recorder = Recorder(
            self._sink,
            self._redactor,
            plan.work_dir / "outbox",
            model_name,
            export_s=self._deadlines.export_s,
        )
        self._exports = Exports(in_flight, self._guarded)
        self._tries = Tries(
            plan,
            gateway=self._gateway,
            host=self._host,
            admission=self._admission,
            isolation=isolation,
            outputs=self._outputs,
            sink=self._sink,
            background=self._background,
        )
        self._faults = FaultResponse(
            gateway=self._gateway,
            admission=self._admission,
            deadlines=self._deadlines,
            record=self._record,
            discard=lambda ended: self._recorder.discard(ended.facts.directory),
            sink=self._sink,
        )
        return RolloutKeeper(
            deadlines=self._deadlines,
            host=self._host,
            admission=self._admission,
            isolation=isolation,
            tries=self._tries,
            recorder=self._recorder,
            record=self._record,
            sink=self._sink,
            background=self._background,
        )

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
            if (ended := await self._tries.run(sample)) is not None:
                await self._faults.ended(ended)

    async def _record(self, ended: Ended) -> None:
        """Record a try; one that left artifacts does so beside the lanes."""
        self._recorded += 1
        work = self._recorder.record(ended.sample, ended.verdict, ended.facts)
        if ended.facts.has_artifacts():
            await self._exports.start(work)
        else:
            await work

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Any failure in ``work`` ends the run as a whole, but lets graded samples through."""
        try:
            await work
        except Halted as error:
            self._end_with(error)
        except RunFailed as error:
            self._end_with(error)
            self._host.link.close("stopped")
        except Exception as error:
            self._sink.log("error", "run", f"Internal error: {error!r}")
            self._end_with(RunFailed("internal", f"The engine failed: {error!r}"))
            self._host.link.close("stopped")

    def _end_with(self, error: RunFailed) -> None:
        self._failure = self._failure or error
        self._admission.close()
        self._tell_progress()

    # --- beside the lanes --------------------------------------------------------------------

    async def _report_progress(self) -> None:
        while True:
            self._tell_progress()
            await asyncio.sleep(PROGRESS_INTERVAL_S)

    def _tell_progress(self) -> None:
        if self._on_progress is None:
            return
        halted: Outcome | None = None
        if self._failure is not None:
            halted = Outcome("failed", self._told(self._failure))
        elif self._budget.is_spent:
            halted = self._budget.outcome()
        waiting_for = self._faults.waiting_for or self._tries.waiting_for()
        self._on_progress(Progress(self._tries.in_flight, waiting_for, halted))

    async def _abandon_tries(self) -> None:
        """Cancel everything in flight; lanes that are recording get a moment to finish."""
        link = self._host.link
        await cancel(link, None, timeout_s=STOP_CANCEL_S)
        link.close("stopped")
        await asyncio.wait({*self._lanes, *self._exports.tasks}, timeout=STOP_GRACE_S)
        for task in (*self._lanes, *self._exports.tasks):
            task.cancel()

    async def _tear_down(self) -> None:
        """End every part, each within its bound, whatever the others do."""
        self._background.cancel()
        endings: list[Coroutine[Any, Any, Any]] = [self._gateway.close()]
        if hasattr(self, "_host"):
            endings.append(self._host.close())
        elif self._started.process is not None:
            endings.append(self._started.process.stop(1.0))
        endings.append(self._admission.release_rows())
        await asyncio.gather(*(_within(END_S, ending) for ending in endings))


async def _within(limit_s: float, work: Coroutine[Any, Any, Any]) -> None:
    """Await ``work`` for ``limit_s`` at most; what goes wrong at the end does not matter."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(limit_s):
            await work
