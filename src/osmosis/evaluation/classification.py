"""From a rollout's terminal answer to a sample's status, reward and error.

The order is product-behaviour.md §1.9, the workflow's own cause first. A failed model call that
the gateway saw behind a failed sample is named, and typed by the one table of failures
(:mod:`osmosis.wire.failure_policy`): an error of the provider is not a zero of the agent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from osmosis.evaluation.driver import RolloutResult
from osmosis.evaluation.limit_waits import limit_wait_text
from osmosis.metrics.error_types import is_infrastructure
from osmosis.wire.failure_policy import error_type_of_call
from osmosis.wire.samples import ModelCall, SampleStatus

KNOWN_CATEGORIES = frozenset({"timeout", "validation_error", "http_error", "agent_error"})
CALL_HIDING_CATEGORIES = frozenset({None, "agent_error", "http_error", "internal_error"})
"""Categories that an exception out of a failed model call ends up in."""
REPORTING_CATEGORIES = frozenset({"agent_error", "http_error"})
"""Those that say that user code failed; the others may have a reason of their own."""

REPLAY_MISS = "replay_miss"

RETURN_A_SAMPLE = (
    "Return an AgentWorkflowOutput with messages, or a list of messages, from AgentWorkflow.run()."
)
SET_A_REWARD = (
    "Call ctx.set_reward(x) with a finite number in Grader.grade(), or set "
    "ctx.sample.remove_sample = True to leave the sample unscored."
)
GRADER_RAN_NOT = (
    "The rollout reported no grading. Pass a grader to LocalBackend(grader=...), and give the "
    "row a ground_truth (or label) or metadata: without both, nothing can be graded."
)


@dataclass(slots=True, frozen=True)
class Classified:
    """A sample's verdict. ``reward`` is finite and only there when the grader succeeded.

    ``error_kind``: the kind of the model call that was the cause.
    """

    status: SampleStatus
    reward: float | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_kind: str | None = None


def classify(
    result: RolloutResult,
    calls: Sequence[ModelCall],
    *,
    agent_timeout_s: float,
    grader_timeout_s: float,
) -> Classified:
    """The verdict on a rollout that reached a terminal status by itself."""
    if miss := next((call for call in calls if call.error_kind == REPLAY_MISS), None):
        # Also when the workflow went on: whatever came of it is no result of the replayed run.
        return Classified(
            "failed",
            error_type=REPLAY_MISS,
            error_message=miss.error_message,
            error_kind=REPLAY_MISS,
        )
    if result.status == "success":
        return _of_success(result.sample)
    return _of_failure(
        result, calls, limits=f"agent {agent_timeout_s:g} s, grader {grader_timeout_s:g} s"
    )


def _of_success(sample: dict[str, Any] | None) -> Classified:
    if sample is None:
        return _failed("validation_error", f"The rollout returned no sample. {RETURN_A_SAMPLE}")
    if sample.get("remove_sample") is True:
        return Classified("skipped")
    reward = sample.get("reward")
    if reward is None:
        return _failed("validation_error", f"The grader set no reward. {SET_A_REWARD}")
    if not is_finite_number(reward):
        return _failed(
            "validation_error", f"The reward {reward!r} is not a finite number. {SET_A_REWARD}"
        )
    return Classified("success", reward=float(reward))


def _of_failure(result: RolloutResult, calls: Sequence[ModelCall], *, limits: str) -> Classified:
    category, message = result.err_category, result.err_message
    graded_phase = result.sample is not None
    if category in CALL_HIDING_CATEGORIES and (
        failed := _failed_by_call(calls, "judge" if graded_phase else "policy", result)
    ):
        return failed
    if category == "timeout":
        text = (message or "The sample ran out of time").rstrip(". ")
        return _failed("timeout", f"{text}. Limits: {limits}.{limit_wait_text(calls)}")
    if category == "validation_error" and graded_phase and _lacks_reward(message):
        return _failed("validation_error", f"{_sentence(message)} {SET_A_REWARD}")
    if category == "validation_error" and not graded_phase and _lacks_sample(message):
        return _failed("validation_error", f"{_sentence(message)} {RETURN_A_SAMPLE}")
    if category in KNOWN_CATEGORIES:
        return _failed(category, message or f"The rollout failed with {category}.")
    if category == "internal_error":
        return _failed(
            "supervisor_error", message or "The rollout's server reported an internal error."
        )
    if category is None:
        # Workflow failures always carry a category; what has none is a grading that never ran.
        return _failed("grader_failed", message or GRADER_RAN_NOT)
    kind = "grader_failed" if graded_phase else "workflow_failed"
    return _failed(kind, message or f"The rollout failed with {category}.")


def is_finite_number(value: Any) -> bool:
    """True for a finite int or float; booleans are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _failed(error_type: str | None, message: str) -> Classified:
    return Classified("failed", error_type=error_type, error_message=message)


def _failed_by_call(
    calls: Sequence[ModelCall], route: str, result: RolloutResult
) -> Classified | None:
    """The verdict when the last call of the failing phase failed.

    A workflow that went on after a failed call did not fail because of it.
    """
    last = next((call for call in reversed(calls) if call.route == route), None)
    if last is None or last.error_kind is None:
        return None
    error_type = error_type_of_call(last.error_kind, route)
    if error_type is None:
        return None
    if result.err_category not in REPORTING_CATEGORIES and not is_infrastructure(error_type):
        return None
    return Classified(
        "failed",
        error_type=error_type,
        error_message=_call_message(last, result.err_message),
        error_kind=last.error_kind,
    )


def _call_message(call: ModelCall, message: str | None) -> str:
    who = "judge model" if call.route == "judge" else "model"
    text = f"The {who} {call.model} failed: {call.error_kind} (HTTP {call.http_status})"
    if call.error_message:
        text += f", {call.error_message}"
    return f"{text.rstrip('. ')}. The rollout then said: {message}" if message else text


def _sentence(message: str | None) -> str:
    return f"{(message or '').rstrip('. ')}."


def _lacks_reward(message: str | None) -> bool:
    text = (message or "").lower()
    return "reward" in text and "set_reward" not in text


def _lacks_sample(message: str | None) -> bool:
    text = (message or "").lower()
    return "sample" in text and "run()" not in text
