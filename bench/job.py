"""The peers' job: N rows ``What is A x B?``, one model call each, so many at once."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from lab.workspace import Workspace

CONFIG = """
[experiment]
rollout = "multiply"
entrypoint = "{entrypoint}"
model_path = "{model_path}"
dataset = "{dataset}"

[evaluation]
limit = {rows}
batch_size = {batch_size}

[advanced]
max_concurrent_calls = 4096
{env}
[secrets]
required = []
"""
WIDE_ENTRYPOINT = "wide.py"
"""The example's rollout, for as many samples at once as a run asks for."""


@dataclass(frozen=True)
class Job:
    """So many rows of one call each, ``in_flight`` at once."""

    rows: int
    latency_s: float
    in_flight: int

    @property
    def ideal_s(self) -> float:
        return math.ceil(self.rows / self.in_flight) * self.latency_s


def write_rows(path: Path, rows: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        for i in range(rows):
            a, b = multiplication(i)
            row = {
                "system_prompt": "Give the product on a line #### <answer>.",
                "user_prompt": f"What is {a} x {b}?",
                "ground_truth": str(a * b),
            }
            out.write(json.dumps(row) + "\n")


def multiplication(row: int) -> tuple[int, int]:
    return 100 + row % 900, 100 + row * 7 % 9000


def write_config(
    workspace: Workspace,
    job: Job,
    *,
    dataset: str,
    model_path: str = "mock",
    env: dict[str, str] | None = None,
) -> str:
    """A config for the job, and the path of it."""
    lines = "".join(f'{name} = "{value}"\n' for name, value in (env or {}).items())
    path = f"configs/eval/{dataset}-{job.in_flight}.toml"
    workspace.write(
        path,
        CONFIG.format(
            entrypoint=WIDE_ENTRYPOINT if job.in_flight > 64 else "main.py",
            model_path=model_path,
            dataset=dataset,
            rows=job.rows,
            batch_size=job.in_flight,
            env=f"\n[env]\n{lines}" if lines else "",
        ),
    )
    return path


def write_wide_rollout(workspace: Workspace) -> None:
    """Beside the example's entrypoint one without its own limit; to be pushed before a run."""
    rollout = workspace.directory / "rollouts" / "multiply"
    text = (rollout / "main.py").read_text()
    wide = text.replace("max_concurrent=64", "max_concurrent=None")
    if wide == text:
        raise AssertionError("the example's concurrency limit is not where it was")
    (rollout / WIDE_ENTRYPOINT).write_text(wide)
