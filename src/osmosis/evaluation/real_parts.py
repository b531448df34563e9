"""The parts a real evaluation uses."""

from __future__ import annotations

from typing import Any

from osmosis.evaluation.environment import prepare_environment
from osmosis.evaluation.gateway.app import Gateway
from osmosis.evaluation.parts import OnOutput, Parts, RolloutPart
from osmosis.evaluation.plan import EvaluationPlan, Sink
from osmosis.evaluation.rollout_process import RolloutProcess


def real_parts() -> Parts:
    """uv environments, sandboxed rollout processes, and the gateway."""
    return Parts(
        prepare_environment=prepare_environment,
        start_rollout=_start_rollout,
        make_gateway=Gateway,
    )


async def _start_rollout(
    plan: EvaluationPlan, environment: Any, sink: Sink, on_output: OnOutput
) -> RolloutPart:
    return await RolloutProcess.start(plan, environment, sink, on_sample_output=on_output)
