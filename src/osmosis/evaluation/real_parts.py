"""The parts a real evaluation uses."""

from __future__ import annotations

from functools import partial
from typing import Any

from osmosis.evaluation.environment import prepare_environment
from osmosis.evaluation.gateway.app import Gateway
from osmosis.evaluation.gateway.counted_model import OnUpstream
from osmosis.evaluation.parts import OnOutput, Parts, RolloutPart
from osmosis.evaluation.plan import EvaluationPlan, Sink
from osmosis.evaluation.rollout_process import RolloutProcess


def real_parts(on_upstream: OnUpstream | None = None) -> Parts:
    """uv environments, sandboxed rollout processes, and the gateway.

    ``on_upstream`` is told of every request to a provider before it leaves.
    """
    return Parts(
        prepare_environment=prepare_environment,
        start_rollout=_start_rollout,
        make_gateway=partial(Gateway, on_upstream=on_upstream),
    )


async def _start_rollout(
    plan: EvaluationPlan, environment: Any, sink: Sink, on_output: OnOutput
) -> RolloutPart:
    return await RolloutProcess.start(plan, environment, sink, on_sample_output=on_output)
