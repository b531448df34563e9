"""Two thousand calls of ten seconds at once: does every event loop still answer at once?"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from bench.job import Job, write_config, write_rows, write_wide_rollout
from bench.lag import listening_ports, watched
from bench.parts import part_of
from bench.report import percentile, report
from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port, http_json
from lab.processes import tree
from lab.workspace import TERMINAL, Workspace

CALLS = 2000
LATENCY_MS = 10_000.0
LOOK_EVERY_S, SLOW_LOOK_EVERY_S = 0.05, 0.25
RUN_LIMIT_S = 240.0
CONTROL_LATENCY_MS = 0.0


def loop_lag(lab: Lab) -> None:
    """Prints the lag of each process, and of an idle server beside them: the machine's own."""
    assert lab.server is not None
    workspace = lab.workspace("load")
    write_wide_rollout(workspace)
    job = Job(CALLS, LATENCY_MS / 1000, CALLS)
    config = write_config(workspace, job, dataset="load", model_path="slow")
    workspace.push("Add a rollout without a limit")
    with (
        mock_model(free_port(), LATENCY_MS) as model,
        mock_model(free_port(), CONTROL_LATENCY_MS) as control,
    ):
        workspace.osmosis("model", "endpoint", "add", "slow", "--base-url", f"{model}/v1")
        write_rows(workspace.directory / "data" / "load.jsonl", CALLS)
        workspace.upload("data/load.jsonl")
        run = workspace.submit(config)
        places = {"machine": f"{control}/stats", "server": f"{lab.url}/api/health"}
        with ExitStack() as stack:
            lags = {part: stack.enter_context(watched(url)) for part, url in places.items()}
            info = _watch_until_ended(workspace, run, lags, stack)
        stats = http_json(f"{model}/stats")
    passed = info["results"]["passed"]
    for part, taken in lags.items():
        name = "machine_lag_ms_max" if part == "machine" else "loop_lag_ms_max"
        report(
            name,
            max(taken) * 1000,
            "ms",
            part=part,
            p99_ms=round(percentile(taken, 0.99) * 1000, 1),
            asked=len(taken),
            most_in_flight=stats["max_in_flight"],
            passed=passed,
        )
    span = stats["last_answer_unix"] - stats["first_row_unix"]
    report("span_2000_calls_s", span, "s", ideal_s=LATENCY_MS / 1000)


def _watch_until_ended(
    workspace: Workspace, run: str, lags: dict[str, list[float]], stack: ExitStack
) -> dict[str, Any]:
    """Watch each shard's gateway and each rollout from when they listen until the run has ended."""
    server = workspace.lab.server
    assert server is not None
    deadline = time.monotonic() + RUN_LIMIT_S
    found: dict[int, str] = {}
    watched_ports: set[int] = set()
    while time.monotonic() < deadline:
        for pid in tree(server.pid):
            part = part_of(pid)
            if pid in found or part not in ("shard", "rollout"):
                continue
            # A process that is just being forked has its parent's sockets.
            for port in set(listening_ports(pid)) - watched_ports:
                watched_ports.add(port)
                found[pid] = f"{part} {sum(name.startswith(part) for name in found.values()) + 1}"
                url = f"http://127.0.0.1:{port}/health"
                lags[found[pid]] = stack.enter_context(watched(url))
        if workspace.api(f"/api/cli/eval-runs/{run}")["eval_run"]["status"] in TERMINAL:
            parts = {name.partition(" ")[0] for name in found.values()}
            assert parts == {"shard", "rollout"}, f"only {sorted(parts)} came up"
            return workspace.wait(run, limit_s=RUN_LIMIT_S)
        time.sleep(LOOK_EVERY_S if "rollout 1" not in lags else SLOW_LOOK_EVERY_S)
    raise AssertionError(f"the run has not ended within {RUN_LIMIT_S} s")
