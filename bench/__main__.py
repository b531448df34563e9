"""Measure what a user waits for and what a row costs. One JSON object a line.

    python -m bench [--rows 1000] [--latency-ms 100] [--in-flight 32] [--runs 3] [--skip-demo]

The job is the peers' job: N multiply rows, one model call each. Figures are medians over --runs
measured runs after one that warms the environment.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.mock_model import mock_model
from lab.platform import OSMOSIS, ROOT, Lab
from lab.ports import free_port, http_json
from lab.processes import cpu_s
from lab.workspace import Workspace

CONFIG = """
[experiment]
rollout = "multiply"
entrypoint = "main.py"
model_path = "mock"
dataset = "bench"

[evaluation]
limit = {rows}
batch_size = {batch_size}

[secrets]
required = []
"""


def report(name: str, value: float, unit: str, **more: Any) -> None:
    print(json.dumps({"name": name, "value": round(value, 4), "unit": unit, **more}), flush=True)


def command_s(argv: list[str | Path], *, cwd: Path, env: dict[str, str], runs: int) -> float:
    """Median wall seconds of a command, after one call that is not counted."""
    taken: list[float] = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        subprocess.run(list(map(str, argv)), cwd=cwd, env=env, check=True, capture_output=True)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])


def write_rows(path: Path, rows: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        for i in range(rows):
            a, b = 100 + i % 900, 100 + i * 7 % 9000
            row = {
                "system_prompt": "Give the product on a line #### <answer>.",
                "user_prompt": f"What is {a} x {b}?",
                "ground_truth": str(a * b),
            }
            out.write(json.dumps(row) + "\n")


@dataclass(frozen=True)
class Job:
    """So many rows of one call each, ``in_flight`` at once."""

    rows: int
    latency_s: float
    in_flight: int

    @property
    def ideal_s(self) -> float:
        return math.ceil(self.rows / self.in_flight) * self.latency_s


def one_run(workspace: Workspace, model: str, job: Job) -> dict[str, float]:
    """One evaluation: what its span, CPU and first call were."""
    lab = workspace.lab
    assert lab.server is not None
    http_json(f"{model}/reset", body=b"{}")
    cpu_before = cpu_s(lab.server.pid)
    run = workspace.submit("configs/eval/bench.toml")
    info = workspace.wait(run, limit_s=900, every_s=0.5)
    cpu = cpu_s(lab.server.pid) - cpu_before
    stats = http_json(f"{model}/stats")
    results, detail = info["results"], info["eval_run"]
    if detail["status"] != "finished" or results["passed"] != job.rows:
        sys.exit(f"the run did not go as it should: {json.dumps(info)[:2000]}")
    ended = datetime.fromisoformat(detail["completed_at"]).timestamp()
    created = datetime.fromisoformat(detail["created_at"]).timestamp()
    span = stats["last_row_unix"] - stats["first_row_unix"] + job.latency_s
    return {
        "dispatch_ratio": span / job.ideal_s,
        "cpu_ms_per_row": cpu * 1000 / job.rows,
        "submit_to_finished_s": ended - created,
        "submit_to_first_row_call_s": stats["first_row_unix"] - created,
        "upstream_hits_per_row": stats["row_requests"] / job.rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--latency-ms", type=float, default=100.0)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--skip-demo", action="store_true")
    args = parser.parse_args()
    job = Job(args.rows, args.latency_ms / 1000, args.in_flight)
    with tempfile.TemporaryDirectory(prefix="osmosis-bench-") as scratch:
        lab = Lab(Path(scratch))
        model_port = free_port()
        with mock_model(model_port, args.latency_ms) as model:
            lab.start()
            try:
                workspace = lab.workspace("bench")
                workspace.write(
                    "configs/eval/bench.toml",
                    CONFIG.format(rows=job.rows, batch_size=job.in_flight),
                )
                workspace.osmosis("model", "endpoint", "add", "mock", "--base-url", f"{model}/v1")
                write_rows(workspace.directory / "data" / "bench.jsonl", args.rows)
                workspace.upload("data/bench.jsonl")
                one_run(workspace, model, job)
                figures = [one_run(workspace, model, job) for _ in range(args.runs)]
                for name, unit in (
                    ("dispatch_ratio", "ratio"),
                    ("cpu_ms_per_row", "ms"),
                    ("submit_to_first_row_call_s", "s"),
                    ("submit_to_finished_s", "s"),
                    ("upstream_hits_per_row", "calls"),
                ):
                    values = [figure[name] for figure in figures]
                    report(name, statistics.median(values), unit, **asdict(job), runs=args.runs)
                for name, words in (("cli_help_s", ["--help"]), ("cli_list_s", ["eval", "list"])):
                    taken = command_s(
                        [OSMOSIS, *words], cwd=workspace.directory, env=lab.env, runs=5
                    )
                    report(name, taken, "s", runs=5)
            finally:
                lab.stop()
    if not args.skip_demo:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "demo", "--once"], cwd=ROOT, check=True, capture_output=True
        )
        report("demo_once_s", time.perf_counter() - started, "s", installed=True)


if __name__ == "__main__":
    main()
