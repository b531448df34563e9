"""What user code imports: workflows, graders, their contexts, and the backend that runs them.

A rollout moves between the vendor's package and this one by changing ``osmosis_ai`` to
``osmosis``. ``call_model`` and ``call_judge`` are ours: with them a rollout needs no HTTP code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osmosis.rollout.agent_workflow import AgentWorkflow
    from osmosis.rollout.backend.base import ExecutionBackend
    from osmosis.rollout.backend.local import LocalBackend
    from osmosis.rollout.context import (
        AgentWorkflowContext,
        GraderContext,
        RolloutContext,
        SampleSource,
        get_rollout_context,
    )
    from osmosis.rollout.errors import ModelCallError
    from osmosis.rollout.grader import Grader
    from osmosis.rollout.links import ModelSettings, judge_settings, model_settings
    from osmosis.rollout.model import call_judge, call_model
    from osmosis.rollout.types import (
        AgentWorkflowConfig,
        AgentWorkflowOutput,
        BaseConfig,
        ConcurrencyConfig,
        ExecutionOutcome,
        ExecutionRequest,
        ExecutionResult,
        GraderConfig,
        MessageDict,
        RolloutErrorCategory,
        RolloutInitRequest,
        RolloutInitResponse,
        RolloutResultResponse,
        RolloutSample,
        RolloutStatus,
    )

__all__ = [
    "AgentWorkflow",
    "AgentWorkflowConfig",
    "AgentWorkflowContext",
    "AgentWorkflowOutput",
    "BaseConfig",
    "ConcurrencyConfig",
    "ExecutionBackend",
    "ExecutionOutcome",
    "ExecutionRequest",
    "ExecutionResult",
    "Grader",
    "GraderConfig",
    "GraderContext",
    "LocalBackend",
    "MessageDict",
    "ModelCallError",
    "ModelSettings",
    "RolloutContext",
    "RolloutErrorCategory",
    "RolloutInitRequest",
    "RolloutInitResponse",
    "RolloutResultResponse",
    "RolloutSample",
    "RolloutStatus",
    "SampleSource",
    "call_judge",
    "call_model",
    "get_rollout_context",
    "judge_settings",
    "model_settings",
]

# pydantic and asyncio cost 200 ms to import, so each name is loaded when it is first used.
_HOMES = {
    "agent_workflow": ("AgentWorkflow",),
    "backend.base": ("ExecutionBackend",),
    "backend.local": ("LocalBackend",),
    "context": (
        "AgentWorkflowContext",
        "GraderContext",
        "RolloutContext",
        "SampleSource",
        "get_rollout_context",
    ),
    "errors": ("ModelCallError",),
    "grader": ("Grader",),
    "links": ("ModelSettings", "judge_settings", "model_settings"),
    "model": ("call_judge", "call_model"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF.get(name, 'types')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
