"""Builds the environments of a workspace's rollouts, as a worker does.

python -m lab.environment_builder WORKSPACE CACHE
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from osmosis.evaluation.environment import prepare_environment
from osmosis.evaluation.plan import EvaluationPlan

ROLLOUTS = ("multiply", "calculator", "judged")


class Unheard:
    """A sink for which nothing is worth keeping."""

    def log(self, *_: Any) -> None: ...

    async def stage(self, stage: Any) -> None: ...

    async def record(self, record: Any) -> None: ...

    async def artifact(self, rollout_id: str, relative_path: str, source: Path) -> None: ...

    async def effective(self, values: dict[str, Any]) -> None: ...

    async def flush(self) -> None: ...


async def build(workspace: Path, cache: Path) -> None:
    for rollout in ROLLOUTS:
        plan = EvaluationPlan(
            run_id="none",
            name="none",
            code_dir=workspace,
            work_dir=cache / "work",
            cache_dir=cache,
            rollout=rollout,
            entrypoint="main.py",
            model_path="none",
        )
        await prepare_environment(plan, Unheard())


if __name__ == "__main__":
    asyncio.run(build(Path(sys.argv[1]), Path(sys.argv[2])))
