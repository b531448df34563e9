"""Runs workflow and grader as coroutines in the server's own process."""

from __future__ import annotations

import copy
import logging
import time
from typing import Any

from osmosis.rollout.agent_workflow import AgentWorkflow
from osmosis.rollout.artifacts import artifact_root, lazy_artifacts_dir
from osmosis.rollout.backend.base import ExecutionBackend
from osmosis.rollout.backend.deadline import run_limited
from osmosis.rollout.backend.reference import resolve
from osmosis.rollout.backend.slots import Slots
from osmosis.rollout.context import (
    AgentWorkflowContext,
    GraderContext,
    RolloutContext,
    enter_grading,
    get_rollout_context,
)
from osmosis.rollout.errors import PhaseTimeout, categorize, describe
from osmosis.rollout.grader import Grader
from osmosis.rollout.types.config import AgentWorkflowConfig, GraderConfig
from osmosis.rollout.types.execution import (
    WORKFLOW_METRICS,
    ExecutionOutcome,
    ExecutionRequest,
    ExecutionResult,
)
from osmosis.rollout.types.output import coerce_output
from osmosis.rollout.types.sample import RolloutSample
from osmosis.rollout.types.status import RolloutErrorCategory, RolloutStatus

DEFAULT_SLOTS = 4

logger = logging.getLogger("osmosis.rollout")


class LocalBackend(ExecutionBackend):
    """One slot covers the workflow and the grading of a rollout; without a free one it queues.

    The number of slots is ``workflow_config.concurrency.max_concurrent``: unlimited when that is
    None, 4 without a workflow config. Each argument is an object or ``"module:attribute"``.
    """

    supports_regrade = True

    def __init__(
        self,
        *,
        workflow: type[AgentWorkflow[Any]] | str,
        workflow_config: AgentWorkflowConfig | str | None = None,
        grader: type[Grader] | str | None = None,
        grader_config: GraderConfig | str | None = None,
    ) -> None:
        self.workflow: type[AgentWorkflow[Any]] = _subclass(resolve(workflow), "workflow", "run")
        self.workflow_config: AgentWorkflowConfig | None = resolve(workflow_config)
        self.grader: type[Grader] | None = None
        if grader is not None:
            self.grader = _subclass(resolve(grader), "grader", "grade")
        self.grader_config: GraderConfig | None = resolve(grader_config)
        config = self.workflow_config
        self.slots = Slots(DEFAULT_SLOTS if config is None else config.concurrency.max_concurrent)
        self.artifact_root = artifact_root()

    def health(self) -> dict[str, Any]:
        return {
            "concurrency": {
                "max_concurrent": self.slots.limit,
                "queued": self.slots.queued,
                "running": self.slots.running,
            }
        }

    async def execute(self, request: ExecutionRequest) -> ExecutionOutcome:
        context = get_rollout_context() or RolloutContext(rollout_id=request.id)
        arrived = time.monotonic()
        try:
            await self.slots.acquire(request.agent_timeout_sec)
        except PhaseTimeout as error:
            failure = _failed(error, None, "Rollout %s never got a slot", request.id)
            return ExecutionOutcome(workflow=failure, grader=None)
        try:
            return await self._execute_in_slot(request, context, arrived)
        finally:
            self.slots.release()

    async def _execute_in_slot(
        self, request: ExecutionRequest, context: RolloutContext, arrived: float
    ) -> ExecutionOutcome:
        context.set_status(RolloutStatus.RUNNING)
        artifacts_dir = lazy_artifacts_dir(self.artifact_root, request.id)
        ctx: AgentWorkflowContext[Any] = AgentWorkflowContext(
            prompt=request.prompt, metadata=request.metadata, artifacts_dir=artifacts_dir
        )
        if request.stored_sample is not None:
            result = ExecutionResult(status=RolloutStatus.SUCCESS, sample=request.stored_sample)
        else:
            waited_s = time.monotonic() - arrived
            result = await self._run_workflow(request, ctx, context, waited_s)
        if result.sample is not None and result.sample.metrics:
            # The grader adds to the same sample; a later grading must know what was there before.
            result.extra_fields = {WORKFLOW_METRICS: dict(result.sample.metrics)}
        if result.status is not RolloutStatus.SUCCESS or not request.grade:
            return ExecutionOutcome(workflow=result, grader=None)
        context.set_status(RolloutStatus.GRADING)
        grader_context = GraderContext(
            label=request.label,
            sample=result.sample,
            metadata=request.metadata,
            artifacts_dir=artifacts_dir,
        )
        graded = await self._run_grader(request, grader_context)
        return ExecutionOutcome(workflow=result, grader=graded)

    async def _run_workflow(
        self,
        request: ExecutionRequest,
        ctx: AgentWorkflowContext[Any],
        context: RolloutContext,
        waited_s: float,
    ) -> ExecutionResult:
        async def work() -> RolloutSample | None:
            config = copy.deepcopy(self.workflow_config)
            ctx.config = config
            with context:
                output = coerce_output(await self.workflow(config).run(ctx))
                if output is None:
                    return await context.get_sample()
            if output.messages is None:
                return None
            return RolloutSample(
                messages=output.messages, label=request.label, metrics=dict(output.metrics)
            )

        try:
            sample = await run_limited(
                work(),
                limit_s=request.agent_timeout_sec,
                phase="the workflow",
                waited_s=waited_s,
            )
        except Exception as error:
            return _failed(error, None, "The workflow of rollout %s failed", request.id)
        return ExecutionResult(status=RolloutStatus.SUCCESS, sample=sample)

    async def _run_grader(self, request: ExecutionRequest, ctx: GraderContext) -> ExecutionResult:
        grader = self.grader
        if grader is None:
            return _failure(None, None, "nothing can be graded: the rollout has no grader")
        if request.label is None and request.metadata is None:
            return _failure(
                None, None, "nothing can be graded: the row has neither a label nor metadata"
            )

        async def work() -> None:
            enter_grading()
            await grader(self.grader_config).grade(ctx)

        try:
            await run_limited(work(), limit_s=request.grader_timeout_sec, phase="the grader")
        except Exception as error:
            return _failed(error, ctx.sample, "Grading rollout %s failed", request.id)
        return _graded(ctx.sample)


def _graded(sample: RolloutSample | None) -> ExecutionResult:
    invalid = RolloutErrorCategory.VALIDATION_ERROR
    if sample is None:
        return _failure(
            None,
            invalid,
            "the workflow produced no sample: return messages from run() or register a "
            "sample source",
        )
    if sample.reward is None and not sample.remove_sample:
        return _failure(
            sample,
            invalid,
            "the grader set no reward: call ctx.set_reward(number), or set "
            "ctx.sample.remove_sample = True to leave the row out of the scores",
        )
    return ExecutionResult(status=RolloutStatus.SUCCESS, sample=sample)


def _failed(
    error: Exception, sample: RolloutSample | None, log_message: str, rollout_id: str
) -> ExecutionResult:
    logger.error(log_message, rollout_id, exc_info=error)
    return _failure(sample, categorize(error), describe(error))


def _failure(
    sample: RolloutSample | None, category: RolloutErrorCategory | None, message: str
) -> ExecutionResult:
    return ExecutionResult(
        status=RolloutStatus.FAILURE, sample=sample, err_message=message, err_category=category
    )


def _subclass(value: Any, name: str, method: str) -> Any:
    if not (isinstance(value, type) and callable(getattr(value, method, None))):
        raise TypeError(f"{name} must be a class with an async {method}() method, got {value!r}")
    return value
