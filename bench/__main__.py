"""Measure what a user waits for and what a row costs. One JSON object a line.

    python -m bench [--only row gateway …] [--long] [--skip-demo]
                    [--rows 1000] [--latency-ms 100] [--in-flight 32] [--runs 3]

The job is the peers' job: N multiply rows, one model call each. Figures are medians over --runs
measured runs after one that warms the environment. --long adds what takes minutes: ten thousand
rows against the wall, a hundred thousand against memory.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from bench.big_runs import big_runs
from bench.commands import commands, demo
from bench.gateway import gateway
from bench.job import Job, write_config, write_rows
from bench.load import loop_lag
from bench.memory import rss_growth
from bench.million import million
from bench.report import median, report
from bench.run import Measured, measure
from bench.stop import stop_to_idle_s
from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port
from lab.workspace import Workspace

LITELLM_MODEL = "anthropic/claude-sonnet-4-5"
WALL_JOB = Job(rows=10_000, latency_s=0.02, in_flight=64)
STOPS = 3
SHORT = ("row", "litellm", "gateway", "stop", "load", "million", "commands", "demo")
LONG = ("wall", "memory", "big-runs")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=(*SHORT, *LONG), default=None)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--latency-ms", type=float, default=100.0)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--skip-demo", action="store_true")
    args = parser.parse_args()
    chosen: set[str] = set(args.only or (SHORT + LONG if args.long else SHORT))
    if args.skip_demo:
        chosen.discard("demo")
    if "gateway" in chosen:
        gateway()
    if "big-runs" in chosen:
        big_runs()
    if chosen - {"gateway", "big-runs", "demo"}:
        with tempfile.TemporaryDirectory(prefix="osmosis-bench-") as scratch, _lab(scratch) as lab:
            job = Job(args.rows, args.latency_ms / 1000, args.in_flight)
            measure_platform(lab, job, chosen, args.runs)
    if "demo" in chosen:
        demo()


def _lab(scratch: str) -> Lab:
    return Lab(Path(scratch))


def measure_platform(lab: Lab, job: Job, chosen: set[str], runs: int) -> None:
    """Everything that needs a running server."""
    workspace = lab.workspace("bench")
    with mock_model(free_port(), job.latency_s * 1000) as model:
        workspace.osmosis("model", "endpoint", "add", "mock", "--base-url", f"{model}/v1")
        write_rows(workspace.directory / "data" / "bench.jsonl", job.rows)
        workspace.upload("data/bench.jsonl")
        config = write_config(workspace, job, dataset="bench")
        if "row" in chosen:
            row(workspace, config, model, job, runs)
        if "litellm" in chosen:
            litellm(workspace, model, job, runs)
        if chosen & {"stop", "million"} and not chosen & {"row", "litellm"}:
            measure(workspace, config, model, job)  # builds the environment
        if "stop" in chosen:
            stop(workspace)
        if "million" in chosen:
            million(workspace, model)
        if "commands" in chosen:
            commands(workspace)
    if "load" in chosen:
        loop_lag(lab)
    if chosen & {"wall", "memory"}:
        long_figures(workspace, chosen, runs)


def row(workspace: Workspace, config: str, model: str, job: Job, runs: int) -> None:
    """The peers' job: span, CPU and first call."""
    figures = _figures(workspace, config, model, job, runs)
    about = {**asdict(job), "runs": runs}
    _report(figures, "dispatch_ratio", lambda one: one.dispatch_ratio, "ratio", about)
    _report(figures, "cpu_ms_per_row", lambda one: one.cpu_ms_per_row, "ms", about)
    for part in ("server", "worker", "shard", "rollout"):
        _report(
            figures,
            "cpu_ms_per_row_of_part",
            lambda one, part=part: one.parts_ms_per_row.get(part, 0.0),
            "ms",
            {"part": part, **about},
        )
    first_call: Callable[[Measured], float] = lambda one: one.submit_to_first_row_call_s  # noqa: E731
    _report(figures, "submit_to_first_row_call_s", first_call, "s", about)
    _report(figures, "submit_to_finished_s", lambda one: one.submit_to_finished_s, "s", about)
    _report(figures, "upstream_hits_per_row", lambda one: one.upstream_hits_per_row, "calls", about)


def litellm(workspace: Workspace, model: str, job: Job, runs: int) -> None:
    """The same job with a provider that only LiteLLM speaks to."""
    env = {"ANTHROPIC_API_BASE": model}
    config = write_config(workspace, job, dataset="bench", model_path=LITELLM_MODEL, env=env)
    figures = _figures(workspace, config, model, job, runs)
    about = {"adapter": "litellm", **asdict(job), "runs": runs}
    _report(figures, "litellm_cpu_ms_per_row", lambda one: one.cpu_ms_per_row, "ms", about)
    _report(figures, "litellm_dispatch_ratio", lambda one: one.dispatch_ratio, "ratio", about)


def stop(workspace: Workspace) -> None:
    job = Job(rows=1000, latency_s=0.1, in_flight=8)
    config = write_config(workspace, job, dataset="bench")
    taken = [stop_to_idle_s(workspace, config) for _ in range(STOPS)]
    report("stop_to_idle_s", median(taken), "s", runs=STOPS)


def long_figures(workspace: Workspace, chosen: set[str], runs: int) -> None:
    with mock_model(free_port(), WALL_JOB.latency_s * 1000) as model:
        workspace.osmosis("model", "endpoint", "add", "mock", "--base-url", f"{model}/v1")
        if "wall" in chosen:
            write_rows(workspace.directory / "data" / "wall.jsonl", WALL_JOB.rows)
            workspace.upload("data/wall.jsonl")
            config = write_config(workspace, WALL_JOB, dataset="wall")
            figures = _figures(workspace, config, model, WALL_JOB, runs)
            about = {**asdict(WALL_JOB), "runs": runs}
            _report(figures, "wall_10000_rows_s", lambda one: one.submit_to_finished_s, "s", about)
        if "memory" in chosen:
            rss_growth(workspace)


def _figures(workspace: Workspace, config: str, model: str, job: Job, runs: int) -> list[Measured]:
    """One run that warms everything, and those that count."""
    measure(workspace, config, model, job)
    return [measure(workspace, config, model, job) for _ in range(runs)]


def _report(
    figures: list[Measured],
    name: str,
    value: Callable[[Measured], float],
    unit: str,
    about: Mapping[str, object],
) -> None:
    report(name, median(value(one) for one in figures), unit, **about)


if __name__ == "__main__":
    main()
