"""What a workflow may return from ``run``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class AgentWorkflowOutput(BaseModel):
    """The conversation of a rollout and its numbers.

    ``messages=None`` means no sample. ``metrics`` must be finite. ``info`` is reserved.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, revalidate_instances="always")

    messages: list[dict[str, Any]] | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    info: dict[str, Any] = Field(default_factory=dict)


def coerce_output(value: object) -> AgentWorkflowOutput | None:
    """The validated output, or None when ``run`` left the sample to a sample source."""
    if value is None:
        return None
    if isinstance(value, AgentWorkflowOutput):
        return AgentWorkflowOutput.model_validate(value)
    if isinstance(value, list):
        return AgentWorkflowOutput.model_validate({"messages": value})
    raise TypeError(
        f"run() returned {type(value).__name__}; return an AgentWorkflowOutput, "
        "a list of message dicts, or None when a sample source is registered"
    )
