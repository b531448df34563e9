"""Brings an evaluation to the point where samples can run, as fast as its parts allow.

The model is checked while the environment is built and the rollout starts; whichever of the
two lines fails first ends the run, and the other is called off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from osmosis.evaluation.parts import GatewayPart, OnOutput, Parts, RolloutPart
from osmosis.evaluation.plan import EvaluationPlan, Sink
from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import Stage

STAGE_ORDER: tuple[Stage, ...] = ("installing", "checking model", "starting rollout", "running")


@dataclass(slots=True)
class Started:
    """What start-up has made so far; the engine tears down whatever is there."""

    environment: Any = None
    process: RolloutPart | None = None

    def all(self) -> tuple[RolloutPart, Any]:
        """(process, environment) of a start-up that went well."""
        if self.process is None:
            raise RunFailed("internal", "The evaluation went on without a rollout process.")
        return self.process, self.environment


class StartUp:
    """One start-up. ``started`` is filled in step by step, so nothing made is ever forgotten."""

    def __init__(
        self,
        plan: EvaluationPlan,
        sink: Sink,
        parts: Parts,
        gateway: GatewayPart,
        *,
        started: Started,
        on_output: OnOutput,
    ) -> None:
        self._plan = plan
        self._sink = sink
        self._parts = parts
        self._gateway = gateway
        self._started = started
        self._on_output = on_output
        self._stage: Stage | None = None
        self._model_checked = False
        self._environment_ready = False

    async def run(self) -> None:
        """Raises RunFailed with the first thing that is wrong."""
        await self._show("installing")
        await self._gateway.start()
        await all_or_first_error(self._check_model(), self._start_rollout())

    async def _check_model(self) -> None:
        await self._gateway.preflight()
        # Other evaluations of the run may start from here on, and need not ask again.
        await self._sink.effective({"model": self._gateway.describe()})
        self._model_checked = True
        if self._environment_ready:
            await self._show("starting rollout")

    async def _start_rollout(self) -> None:
        self._started.environment = await self._parts.prepare_environment(self._plan, self._sink)
        self._environment_ready = True
        await self._show("starting rollout" if self._model_checked else "checking model")
        self._started.process = await self._parts.start_rollout(
            self._plan, self._started.environment, self._sink, self._on_output
        )

    async def _show(self, stage: Stage) -> None:
        """Stages only ever move on."""
        if self._stage is None or STAGE_ORDER.index(stage) > STAGE_ORDER.index(self._stage):
            self._stage = stage
            await self._sink.stage(stage)


async def all_or_first_error(*work: Awaitable[None]) -> None:
    """Run all at once; on the first error cancel the others, wait for them, and raise it."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
