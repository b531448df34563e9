"""The parts a real evaluation uses."""

from __future__ import annotations

from typing import Any

from osmosis.evaluation.environment import prepare_environment
from osmosis.evaluation.gateway.app import Gateway
from osmosis.evaluation.gateway.counted_model import OnUpstream
from osmosis.evaluation.parts import OnOutput, Parts, RolloutPart
from osmosis.evaluation.plan import EvaluationPlan, Sink
from osmosis.evaluation.redaction import Redactor
from osmosis.evaluation.rollout_process import RolloutProcess


def real_parts(on_upstream: OnUpstream | None = None) -> Parts:
    """uv environments, sandboxed rollout processes, and the gateway.

    ``on_upstream`` is told of every request to a provider before it leaves.
    """
    made = _RealParts(on_upstream)
    return Parts(
        prepare_environment=prepare_environment,
        start_rollout=made.start_rollout,
        make_gateway=made.make_gateway,
    )


class _RealParts:
    """The gateway comes first; a rollout off every network is reached by it from within."""

    def __init__(self, on_upstream: OnUpstream | None) -> None:
        self._on_upstream = on_upstream
        self._gateway: Gateway | None = None

    def make_gateway(self, plan: EvaluationPlan, redactor: Redactor, sink: Sink) -> Gateway:
        self._gateway = Gateway(plan, redactor, sink, on_upstream=self._on_upstream)
        return self._gateway

    async def start_rollout(
        self, plan: EvaluationPlan, environment: Any, sink: Sink, on_output: OnOutput
    ) -> RolloutPart:
        return await RolloutProcess.start(
            plan, environment, sink, on_sample_output=on_output, models=self._gateway
        )
