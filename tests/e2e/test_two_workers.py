"""A worker that stands still for longer than its lease, and wakes while another has its run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port
from lab.processes import command_line, find, is_alive, tree
from lab.workspace import Workspace
from tests.e2e.configs import eval_config

ROWS = 40
TAKEN_OVER_WITHIN_S = 60.0


def until(condition: Callable[[], bool], what: str, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.timeout(240)  # the lease alone takes 15 s, and it may be the first to set up the lab
def test_a_worker_that_wakes_after_its_lease_changes_nothing(
    lab: Lab, workspace: Workspace
) -> None:
    with mock_model(free_port(), 150.0) as model:
        workspace.osmosis("model", "endpoint", "add", "steady", "--base-url", f"{model}/v1")
        config = eval_config(model="steady", limit=ROWS, batch_size=2)
        workspace.write("configs/eval/steady.toml", config)
        run = workspace.start("configs/eval/steady.toml")

        def counted() -> int:
            detail = workspace.api(f"/api/cli/eval-runs/{run}")
            return detail["results"].get("graded") or 0

        until(lambda: counted() >= 5, "five graded samples", 60)
        assert lab.server is not None
        (worker,) = [
            pid
            for pid in find(lab.server.pid, "osmosis.worker")
            if "osmosis.worker.shard" not in command_line(pid)
        ]
        frozen = list(tree(worker))
        send(frozen, signal.SIGSTOP)
        other = subprocess.Popen(
            [sys.executable, "-m", "osmosis.worker"],
            env={
                **lab.env,
                "OSMOSIS_WORKER_URL": lab.url,
                "OSMOSIS_WORKER_TOKEN_FILE": str(lab.data / "worker-token"),
                "OSMOSIS_WORKER_DIR": str(lab.data),
            },
            stderr=subprocess.DEVNULL,
        )
        try:
            before = counted()
            until(lambda: counted() > before, "the other worker goes on", TAKEN_OVER_WITHIN_S)
        finally:
            send(frozen, signal.SIGCONT)
        info = workspace.wait(run)
        other.terminate()
        other.wait(30)
    assert info["eval_run"]["status"] == "finished", info["eval_run"]
    assert info["results"]["graded"] == ROWS
    assert info["results"]["failed"] == 0
    keys: list[tuple[int, int]] = []
    cursor = ""
    while cursor is not None:
        page = workspace.api(f"/api/cli/eval-runs/{run}/samples?limit=50{cursor}")
        keys += [(sample["row_index"], sample["run_index"]) for sample in page["samples"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert keys == [(row, 0) for row in range(ROWS)]
    assert is_alive(worker)
    until(lambda: not find(lab.server.pid, "main.py"), "no rollout is left", 15)
    # The one that woke is of use again.
    workspace.write("configs/eval/after.toml", eval_config(limit=1))
    again = workspace.wait(workspace.start("configs/eval/after.toml"))
    assert again["eval_run"]["status"] == "finished"
