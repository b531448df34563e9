"""Two thousand calls of ten seconds at once: does every event loop still answer at once?"""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.job import Job, write_config, write_rows, write_wide_rollout
from bench.lag import listening_ports, watched
from bench.parts import part_of
from bench.report import percentile, report
from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port, http_json
from lab.processes import tree

CALLS = 2000
LATENCY_MS = 10_000.0
START_LIMIT_S = 90.0
RUN_LIMIT_S = 240.0
CONTROL_LATENCY_MS = 0.0


def loop_lag(lab: Lab) -> None:
    """Prints the lag of each part, and of an idle server beside them: the machine's own."""
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
        ports = _ports_of_the_run(lab.server.pid)
        places = {
            "machine": f"{control}/stats",
            "server": f"{lab.url}/api/health",
            **{part: f"http://127.0.0.1:{port}/health" for part, port in ports.items()},
        }
        with ExitStack() as stack:
            lags = {part: stack.enter_context(watched(url)) for part, url in places.items()}
            info = workspace.wait(run, limit_s=RUN_LIMIT_S, every_s=0.5)
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


def _ports_of_the_run(server: int) -> dict[str, int]:
    """Where the shard's gateway and the rollout listen, as soon as both do."""
    deadline = time.monotonic() + START_LIMIT_S
    found: dict[str, int] = {}
    while time.monotonic() < deadline:
        for pid in tree(server):
            part = part_of(pid)
            if part in ("shard", "rollout"):
                for port in listening_ports(pid):
                    found[part] = port
        if len(found) == 2:
            return found
        time.sleep(0.02)
    raise AssertionError(f"only {sorted(found)} came up")
