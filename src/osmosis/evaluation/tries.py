"""One try of a sample: admitted, driven to its result, and given its verdict."""

from __future__ import annotations

import asyncio
import os
from time import monotonic
from typing import Any

from osmosis.evaluation.admission import PROCESS_LOST, Admission
from osmosis.evaluation.background import Background
from osmosis.evaluation.classification import Classified, classify
from osmosis.evaluation.crash_isolation import CrashIsolation
from osmosis.evaluation.deadlines import Deadlines
from osmosis.evaluation.driver import (
    AdmissionRefused,
    Expired,
    ProcessLost,
    ProtocolBroken,
    RolloutResult,
    TryLost,
    cancel,
    drive,
)
from osmosis.evaluation.fault_watch import Ended
from osmosis.evaluation.limit_waits import limit_wait_text
from osmosis.evaluation.parts import GatewayPart, SessionPart
from osmosis.evaluation.plan import EvaluationPlan, Sink
from osmosis.evaluation.recorder import TryFacts, request_extra_fields
from osmosis.evaluation.regrading import fetch_stored, policy_calls, sample_to_grade
from osmosis.evaluation.rollout_host import RolloutHost
from osmosis.evaluation.rollout_link import RolloutLink
from osmosis.evaluation.sample import Sample
from osmosis.evaluation.sample_output import OutputBook

MAX_LOST_TRIES = 3
LOST_TRY_DELAY_S = 0.5
CALLS_END_S = 1.0
"""For calls that are cancelled at the end of a try; what they cost is part of it."""
SLOW_SAMPLE_S = 30.0
"""From here on the run names the sample that it is waiting for."""


class Tries:
    """Runs tries, any number side by side, each under the sample's own deadline."""

    def __init__(
        self,
        plan: EvaluationPlan,
        *,
        gateway: GatewayPart,
        host: RolloutHost,
        admission: Admission,
        isolation: CrashIsolation,
        outputs: OutputBook,
        sink: Sink,
        background: Background,
    ) -> None:
        self._plan = plan
        self._deadlines = Deadlines.of(plan)
        self._gateway = gateway
        self._host = host
        self._admission = admission
        self._isolation = isolation
        self._outputs = outputs
        self._sink = sink
        self._background = background
        self._running: dict[Sample, tuple[float, SessionPart]] = {}
        self.lost: list[tuple[Sample, TryFacts]] = []
        """Tries that went down with the process, until their samples are judged."""

    @property
    def in_flight(self) -> int:
        return len(self._running)

    async def run(self, sample: Sample) -> Ended | None:
        """One try; None when it brought no verdict and the sample stays open."""
        sample.tries += 1
        rollout_id = os.urandom(16).hex()
        facts = TryFacts(
            rollout_id=rollout_id,
            directory=self._host.process.artifact_root / rollout_id,
        )
        verdict: Classified | None = None
        link = self._host.link
        self._outputs.open(rollout_id)
        session = self._gateway.open_session(
            rollout_id, source_row=sample.row.source_row, run_index=sample.run_index
        )
        self._running[sample] = facts.began, session
        self._host.enter()
        try:
            verdict = await self._drive(sample, facts, link, session)
        except ProcessLost:
            await self._close_session(session, facts)
            if link.close_reason != "stopped":
                self.lost.append((sample, facts))
        except TryLost as error:
            await self._close_session(session, facts)
            verdict = await self._after_lost_try(sample, link, rollout_id, error)
        finally:
            session.close()
            self._outputs.close(rollout_id)
            self._host.leave()
            self._running.pop(sample, None)
            self._admission.settled(sample)
        return None if verdict is None else Ended(sample, verdict, facts)

    def waiting_for(self) -> str | None:
        """The oldest sample in flight and its open call, once it is remarkably old."""
        if not self._running:
            return None
        sample, (began, session) = next(iter(self._running.items()))
        age_s = monotonic() - began
        if age_s < SLOW_SAMPLE_S:
            return None
        text = f"{sample}: {age_s:.0f} s of at most {self._deadlines.sample_s:.0f} s"
        call = session.oldest_call()
        if call is None:
            return text
        route, call_began = call
        who = self._plan.advanced.judge_model if route == "judge" else self._plan.model_path
        return f"{text}, {monotonic() - call_began:.0f} s of them for a call of the {route} {who}"

    async def _drive(
        self, sample: Sample, facts: TryFacts, link: RolloutLink, session: SessionPart
    ) -> Classified:
        plan = self._plan
        if plan.stored is not None:
            facts.stored = await fetch_stored(plan.stored, sample, facts.directory)
        body = self._body(sample, facts, session)
        try:
            result = await drive(link, facts.rollout_id, body, limit_s=self._deadlines.sample_s)
        except Expired as expired:
            await self._close_session(session, facts)
            return self._expired(link, facts, expired)
        except (AdmissionRefused, ProtocolBroken) as error:
            await self._close_session(session, facts)
            self._background.later(cancel(link, [facts.rollout_id]))
            return Classified(
                "failed", error_type="rollout_protocol_error", error_message=str(error)
            )
        await self._close_session(session, facts)
        if _is_no_verdict(result):
            raise TryLost(result.err_message or "the rollout was cancelled by its own server")
        facts.sample = result.sample
        facts.trajectory = result.trajectory
        facts.workflow_metrics = result.workflow_metrics
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

    def _body(self, sample: Sample, facts: TryFacts, session: SessionPart) -> dict[str, Any]:
        row = sample.row
        body: dict[str, Any] = {
            "initial_messages": row.initial_messages,
            "label": row.label,
            "metadata": row.metadata,
            "rollout_id": facts.rollout_id,
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
        if facts.stored is not None:
            # Without a key the policy cannot be called, whatever the rollout tries.
            body |= {"stored_sample": sample_to_grade(facts.stored), "llm_api_key": None}
        return body

    async def _close_session(self, session: SessionPart, facts: TryFacts) -> None:
        """No more model calls in this try; note those made and what was printed."""
        facts.end()
        session.close()
        # One turn of the loop for the pipe's last lines.
        await asyncio.sleep(0)
        if session.calls_in_flight:
            await session.calls_ended(CALLS_END_S)
        facts.calls = session.calls
        facts.kept_calls = session.kept_calls
        if facts.stored is not None:
            facts.calls = [*policy_calls(facts.stored), *session.calls]
            facts.kept_calls = facts.stored.kept_calls
        facts.output = self._outputs.close(facts.rollout_id)

    def _expired(self, link: RolloutLink, facts: TryFacts, expired: Expired) -> Classified:
        """The sample's own deadline passed; is it to blame, or a neighbour that blocks all?"""
        if self._host.is_silent:
            self._admission.pause(
                PROCESS_LOST
            )  # before this sample settles, or the run might seem over
            self._host.give_up("blocked")
            raise ProcessLost("the rollout's event loop is blocked")
        self._background.later(cancel(link, [facts.rollout_id]))
        self._host.doubt_slots()
        self._isolation.sample_finished()
        limits = self._deadlines
        why = expired.step or (
            "The rollout's server took the sample, and GET /rollout/ID/result brought no result: "
            "code must not swallow asyncio.CancelledError."
        )
        return Classified(
            "failed",
            error_type="timeout",
            error_message=f"No result within {limits.sample_s:g} s "
            f"(agent_workflow_timeout {limits.agent_s:g} s, grader_timeout {limits.grader_s:g} s, "
            f"and {limits.teardown_s:g} s for queueing and teardown). {why}"
            f"{limit_wait_text(facts.calls)}",
        )

    async def _after_lost_try(
        self, sample: Sample, link: RolloutLink, rollout_id: str, error: TryLost
    ) -> Classified | None:
        """Try again a few times; then the rollout's server is to blame."""
        if self._admission.closed:
            return None  # cancelled by us: the sample stays open
        sample.lost_tries += 1
        self._background.later(cancel(link, [rollout_id]))
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


def _is_no_verdict(result: RolloutResult) -> bool:
    """Cancelled, or given up for missing polls: nobody's failure, so the sample runs again."""
    return result.status == "cancelled" or result.err_category == "lease_expired"
