"""`eval stop` in each status and stage: idle soon, graded samples kept, status `stopped`."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port
from lab.processes import find
from lab.workspace import Workspace
from tests.e2e.configs import eval_config

IDLE_LIMIT_S = 10.0


@pytest.fixture(scope="module")
def slow(workspace: Workspace) -> Iterator[Workspace]:
    with mock_model(free_port(), 400.0) as model:
        workspace.osmosis("model", "endpoint", "add", "slow", "--base-url", f"{model}/v1")
        workspace.write(
            "configs/eval/slow.toml", eval_config(model="slow", limit=400, batch_size=4)
        )
        yield workspace


def stage_of(workspace: Workspace, run: str) -> tuple[str, str]:
    detail = workspace.api(f"/api/cli/eval-runs/{run}")["eval_run"]
    return detail["status"], detail["stage"]


def wait_for(workspace: Workspace, run: str, *stages: str) -> None:
    deadline = time.monotonic() + 60
    while stage_of(workspace, run)[1] not in stages:
        assert time.monotonic() < deadline, stage_of(workspace, run)
        time.sleep(0.01)


def assert_idle(lab: Lab, since: float) -> None:
    assert lab.server is not None
    while find(lab.server.pid, "main.py"):
        assert time.monotonic() - since < IDLE_LIMIT_S, "the rollout still runs"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "stages",
    [("queued",), ("cloning", "installing"), ("checking model", "starting rollout"), ("running",)],
)
def test_a_run_stops_in_every_stage(slow: Workspace, stages: tuple[str, ...]) -> None:
    run = slow.start("configs/eval/slow.toml")
    if stages != ("queued",):
        wait_for(slow, run, *stages, "running")
    asked = time.monotonic()
    slow.osmosis("eval", "stop", run, "--yes")
    info = slow.wait(run, limit_s=IDLE_LIMIT_S, every_s=0.05)
    assert info["eval_run"]["status"] == "stopped"
    assert_idle(slow.lab, asked)


def test_a_stop_keeps_what_is_graded(slow: Workspace) -> None:
    run = slow.start("configs/eval/slow.toml")
    deadline = time.monotonic() + 60
    path = f"/api/cli/eval-runs/{run}"
    while (graded := slow.api(path)["results"].get("graded", 0)) < 5:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    slow.osmosis("eval", "stop", run, "--yes")
    info = slow.wait(run, limit_s=IDLE_LIMIT_S)
    assert info["eval_run"]["status"] == "stopped"
    assert graded <= info["results"]["graded"] < 400
    assert info["results"]["failed"] == 0, "pending samples are not failures"
