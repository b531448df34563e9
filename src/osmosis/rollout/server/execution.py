"""One rollout from admission to published result."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from osmosis.rollout.artifacts import artifact_root, write_rollout_file
from osmosis.rollout.backend.base import ExecutionBackend
from osmosis.rollout.context import ModelLink, RolloutContext, judge_link
from osmosis.rollout.errors import categorize, describe
from osmosis.rollout.server.output import owned_output
from osmosis.rollout.server.registry import Entry, Registry
from osmosis.rollout.server.results import dumps, result_body
from osmosis.rollout.trajectory import sample_trajectory
from osmosis.rollout.types.execution import (
    WORKFLOW_METRICS,
    ExecutionOutcome,
    ExecutionRequest,
    ExecutionResult,
)
from osmosis.rollout.types.protocol import RolloutInitRequest
from osmosis.rollout.types.sample import RolloutSample
from osmosis.rollout.types.status import RolloutStatus

TRAJECTORY_FILE = "trajectory.json"

logger = logging.getLogger("osmosis.rollout")


class Executor:
    """Runs admitted rollouts on the backend and publishes what comes of them."""

    def __init__(self, backend: ExecutionBackend, registry: Registry) -> None:
        self.backend = backend
        self.registry = registry
        root = getattr(backend, "artifact_root", None)
        self.root: Path = root if isinstance(root, Path) else artifact_root()

    async def run(self, entry: Entry, request: RolloutInitRequest) -> None:
        """Execute one rollout; the trajectory is on disk before the result can be seen."""
        with owned_output(entry.rollout_id):
            outcome = await self._execute(entry, request)
            result = outcome.final()
            sample = result.sample or outcome.workflow.sample
            trajectory = "messages"
            if not (request.compact_trajectory and _is_plain(result.sample)):
                trajectory = await self._save_trajectory(entry, request, sample)
            body = result_body(
                entry.rollout_id,
                result.status,
                result.sample,
                result.err_message,
                result.err_category,
                trajectory=trajectory if request.compact_trajectory else None,
                workflow_metrics=_workflow_metrics(outcome) if request.compact_trajectory else None,
            )
        self.registry.finish(entry, result.status, body)

    async def _execute(self, entry: Entry, request: RolloutInitRequest) -> ExecutionOutcome:
        context = RolloutContext(
            chat_completions_url=request.chat_completions_url,
            api_key=request.llm_api_key,
            rollout_id=entry.rollout_id,
            _on_status=lambda status: self.registry.set_status(entry, status),
        )
        execution = ExecutionRequest.model_construct(
            id=entry.rollout_id,
            prompt=request.initial_messages,
            label=request.label,
            metadata=request.metadata,
            agent_timeout_sec=request.agent_timeout_sec,
            grader_timeout_sec=request.grader_timeout_sec,
            grade=request.grade,
            stored_sample=_stored_sample(request),
        )
        judge_link.set(_judge_link(request))
        try:
            with context:
                return await self.backend.execute(execution)
        except Exception as error:
            logger.exception("The backend failed on rollout %s", entry.rollout_id)
            failure = ExecutionResult(
                status=RolloutStatus.FAILURE,
                err_message=describe(error),
                err_category=categorize(error),
            )
            return ExecutionOutcome(workflow=failure)

    async def _save_trajectory(
        self, entry: Entry, request: RolloutInitRequest, sample: RolloutSample | None
    ) -> str:
        """Write the trajectory; says where it is: ``file``, or ``none``."""
        try:
            document = sample_trajectory(
                sample,
                rollout_id=entry.rollout_id,
                request_label=request.label,
                request_metadata=request.metadata,
                request_extra_fields=request.extra_fields,
            )
            content = None if document is None else dumps(document)
        except Exception:
            logger.warning("Rollout %s has no usable trajectory", entry.rollout_id, exc_info=True)
            return "none"
        if content is None:
            return "none"
        written = await write_rollout_file(self.root, entry.rollout_id, TRAJECTORY_FILE, content)
        return "file" if written else "none"


def _workflow_metrics(outcome: ExecutionOutcome) -> dict[str, Any] | None:
    diagnostics = outcome.workflow.extra_fields
    return diagnostics.get(WORKFLOW_METRICS) if diagnostics else None


def _is_plain(sample: RolloutSample | None) -> bool:
    """Whether the messages of the result are all there is to the trajectory."""
    try:
        return sample is not None and bool(sample.trajectory_messages == sample.messages)
    except Exception:  # what user code put there may refuse to be compared
        return False


def _stored_sample(request: RolloutInitRequest) -> RolloutSample | None:
    stored = request.stored_sample
    if stored is None:
        return None
    return RolloutSample(
        messages=stored.messages,
        label=request.label,
        metrics=stored.metrics,
        extra_fields=stored.extra_fields,
    )


def _judge_link(request: RolloutInitRequest) -> ModelLink | None:
    if not request.judge_completions_url:
        return None
    return ModelLink(request.judge_completions_url, request.judge_api_key)
