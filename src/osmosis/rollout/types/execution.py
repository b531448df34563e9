"""What a backend is asked to execute, and what it answers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from osmosis.rollout.types.sample import MessageDict, RolloutSample
from osmosis.rollout.types.status import RolloutErrorCategory, RolloutStatus

WORKFLOW_METRICS = "workflow_metrics"
"""Among a workflow's diagnostics: the metrics that it set, before any grading."""


class ExecutionRequest(BaseModel):
    """One rollout to execute. Timeouts in seconds; None means unbounded.

    With ``stored_sample`` the workflow is skipped and that sample is graded.
    """

    id: str
    prompt: list[MessageDict]
    label: str | None = None
    metadata: dict[str, Any] | None = None
    agent_timeout_sec: float | None = None
    grader_timeout_sec: float | None = None
    grade: bool = True
    stored_sample: RolloutSample | None = None


class ExecutionResult(BaseModel):
    """How one phase ended. ``extra_fields`` are diagnostics and never travel."""

    status: RolloutStatus
    sample: RolloutSample | None = None
    err_message: str | None = None
    err_category: RolloutErrorCategory | None = None
    extra_fields: dict[str, Any] | None = None


class ExecutionOutcome(BaseModel):
    """The workflow's result and, when grading took place, the grader's."""

    workflow: ExecutionResult
    grader: ExecutionResult | None = None

    def final(self) -> ExecutionResult:
        """The result of the rollout: the workflow's failure wins, else the grader's word."""
        if self.workflow.status is not RolloutStatus.SUCCESS or self.grader is None:
            return self.workflow
        return self.grader
