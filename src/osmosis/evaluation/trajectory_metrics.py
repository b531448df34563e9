"""Puts what the gateway measured onto the agent steps of a trajectory (rollout-protocol.md §8.1).

A call's numbers belong to a step only when there are exactly as many answered policy calls as
agent steps; otherwise they are kept aside under ``extra.osmosis`` and feed the totals alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from osmosis.wire.samples import ModelCall

METRIC_NAMES = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")


def merge_call_metrics(trajectory: dict[str, Any], calls: Sequence[ModelCall]) -> None:
    """Write the metrics of the answered policy calls into ``trajectory``, in place."""
    answered = [call for call in calls if call.route == "policy" and call.error_kind is None]
    if not answered:
        return
    steps = trajectory.get("steps")
    agent_steps = [
        step
        for step in (steps if isinstance(steps, list) else ())
        if isinstance(step, dict) and step.get("source") == "agent"
    ]
    if len(agent_steps) == len(answered):
        for step, call in zip(agent_steps, answered, strict=True):
            _onto_step(step, call)
    else:
        extra = _object_at(trajectory, "extra")
        _object_at(extra, "osmosis")["unmatched_llm_call_metrics"] = [
            call_metrics(call) | {"model_name": call.model} for call in answered
        ]
    _onto_totals(trajectory, answered)


def call_metrics(call: ModelCall) -> dict[str, Any]:
    """The known numbers of one call; what is unknown is left out, never zero."""
    return {name: value for name in METRIC_NAMES if (value := getattr(call, name)) is not None}


def _onto_step(step: dict[str, Any], call: ModelCall) -> None:
    if step.get("llm_call_count") == 0:
        return
    step.setdefault("model_name", call.model)
    if numbers := call_metrics(call):
        _object_at(step, "metrics").update(numbers)


def _onto_totals(trajectory: dict[str, Any], answered: Sequence[ModelCall]) -> None:
    totals = _object_at(trajectory, "final_metrics")
    for name in METRIC_NAMES:
        values = [getattr(call, name) for call in answered]
        known = [value for value in values if value is not None]
        if known and (name != "cost_usd" or len(known) == len(values)):
            totals[f"total_{name}"] = sum(known)


def _object_at(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    if not isinstance(value, dict):
        value = parent[key] = {}
    return value
