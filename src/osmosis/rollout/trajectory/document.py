"""A rollout's conversation as an ATIF document: identity, steps, totals and our own extras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any

from osmosis.rollout.json_values import json_safe
from osmosis.rollout.trajectory.metrics import CallMetrics, apply_calls, totals
from osmosis.rollout.trajectory.steps import steps_of
from osmosis.rollout.types.sample import Messages, RolloutSample

SCHEMA_VERSION = "ATIF-v1.7"
AGENT_NAME = "osmosis-rollout-sdk"
DISTRIBUTION = "osmosis-platform"


def build_trajectory(
    sample_messages: Messages,
    *,
    rollout_id: str,
    label: str | None = None,
    reward: float | None = None,
    metrics: Mapping[str, Any] | None = None,
    extra_fields: Mapping[str, Any] | None = None,
    request_metadata: Mapping[str, Any] | None = None,
    request_extra_fields: Mapping[str, Any] | None = None,
    call_metrics: Sequence[CallMetrics] = (),
    model_name: str | None = None,
) -> dict[str, Any] | None:
    """The document of one rollout; None when there is no message to tell of.

    ``call_metrics`` are the policy's calls in dispatch order (see :func:`attach_call_metrics`).
    """
    steps = steps_of(sample_messages)
    if not steps:
        return None
    about: dict[str, Any] = {
        "rollout_id": rollout_id,
        "label": label,
        "reward": reward,
        "sample_metrics": metrics or None,
        "sample_extra_fields": extra_fields or None,
        "request_metadata": request_metadata,
        "request_extra_fields": request_extra_fields,
    }
    present = {key: value for key, value in about.items() if value is not None}
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "session_id": rollout_id,
        "trajectory_id": rollout_id,
        "agent": {"name": AGENT_NAME, "version": sdk_version()},
        "steps": steps,
        "final_metrics": totals(steps, ()),
        "extra": {"osmosis": json_safe(present)},
    }
    return attach_call_metrics(document, call_metrics, model_name=model_name)


def attach_call_metrics(
    document: dict[str, Any],
    call_metrics: Sequence[CallMetrics],
    *,
    model_name: str | None = None,
) -> dict[str, Any]:
    """Give the document's agent steps the numbers of their model calls; changes and returns it.

    Each entry may hold ``prompt_tokens, completion_tokens, cached_tokens, cost_usd, model_name,
    prompt_token_ids, completion_token_ids, logprobs, extra``. When there are not as many calls
    as agent steps nobody can tell which is whose: then they are listed under
    ``extra.osmosis.unmatched_llm_call_metrics`` and only add to the totals.
    """
    if model_name is not None:
        document["agent"]["model_name"] = model_name
    if call_metrics:
        unmatched = apply_calls(document["steps"], call_metrics)
        if unmatched:
            document["extra"]["osmosis"]["unmatched_llm_call_metrics"] = unmatched
        document["final_metrics"] = totals(document["steps"], call_metrics)
    return document


def sample_trajectory(
    sample: RolloutSample | None,
    *,
    rollout_id: str,
    request_label: str | None = None,
    request_metadata: Mapping[str, Any] | None = None,
    request_extra_fields: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """The document of a sample; None when it has no conversation or asked not to be saved."""
    if sample is None or sample.trajectory_messages is None:
        return None
    return build_trajectory(
        sample.trajectory_messages,
        rollout_id=rollout_id,
        label=sample.label if request_label is None else request_label,
        reward=sample.reward,
        metrics=sample.metrics,
        extra_fields=sample.extra_fields,
        request_metadata=request_metadata,
        request_extra_fields=request_extra_fields,
    )


@cache
def sdk_version() -> str:
    """The installed version of this package."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"
