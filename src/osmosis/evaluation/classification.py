"""From a rollout's terminal answer to a sample's status, reward and error.

The order is product-behaviour.md §1.9, the workflow's own cause first. Provider failures that
the gateway saw behind a failed sample are named, and typed ``http_error``: an error of the
provider is not a zero of the agent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from osmosis.evaluation.driver import RolloutResult
from osmosis.wire.samples import ModelCall, SampleStatus

KNOWN_CATEGORIES = frozenset({"timeout", "validation_error", "http_error", "agent_error"})
PROVIDER_ERROR_KINDS = frozenset(
    {"auth", "rate_limit", "server_error", "connection", "timeout", "bad_response", "not_found"}
)
"""``ModelCall.error_kind`` values that are the provider's doing, not the agent's."""
PROVIDER_HIDING_CATEGORIES = frozenset({None, "agent_error", "http_error", "internal_error"})
"""Categories that an exception out of a failed model call ends up in."""

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
    """A sample's verdict. ``reward`` is finite and only there when the grader succeeded."""

    status: SampleStatus
    reward: float | None = None
    error_type: str | None = None
    error_message: str | None = None


def classify(
    result: RolloutResult,
    calls: Sequence[ModelCall],
    *,
    agent_timeout_s: float,
    grader_timeout_s: float,
) -> Classified:
    """The verdict on a rollout that reached a terminal status by itself."""
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
    if category in PROVIDER_HIDING_CATEGORIES and (
        call := _provider_failure(calls, "judge" if graded_phase else "policy")
    ):
        return _failed("http_error", _provider_message(call, message))
    if category == "timeout":
        text = (message or "The sample ran out of time").rstrip(". ")
        return _failed("timeout", f"{text}. Limits: {limits}.")
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


def _provider_failure(calls: Sequence[ModelCall], route: str) -> ModelCall | None:
    """The last call of the failing phase, when it was the provider who failed it.

    A workflow that went on after a failed call did not fail because of it.
    """
    last = next((call for call in reversed(calls) if call.route == route), None)
    return last if last is not None and last.error_kind in PROVIDER_ERROR_KINDS else None


def _provider_message(call: ModelCall, message: str | None) -> str:
    who = "judge model" if call.route == "judge" else "model"
    text = f"The {who} {call.model} failed: {call.error_kind} (HTTP {call.http_status})"
    if call.error_message:
        text += f", {call.error_message}"
    return f"{text} The rollout then said: {message}" if message else text


def _sentence(message: str | None) -> str:
    return f"{(message or '').rstrip('. ')}."


def _lacks_reward(message: str | None) -> bool:
    text = (message or "").lower()
    return "reward" in text and "set_reward" not in text


def _lacks_sample(message: str | None) -> bool:
    text = (message or "").lower()
    return "sample" in text and "run()" not in text
