"""User code that looks for what is not its own finds nothing, and is gone when its run is."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from lab.platform import Lab
from lab.processes import command_lines_with
from lab.workspace import Workspace
from osmosis.evaluation.sandbox import choose_sandbox, has_own_network
from tests.e2e.configs import eval_config

ROLLOUT = Path(__file__).with_name("hostile_rollout.py")


@pytest.mark.skipif(choose_sandbox().name == "none", reason="no sandbox works on this machine")
def test_hostile_user_code_finds_nothing_and_leaves_nobody(lab: Lab, workspace: Workspace) -> None:
    mark = f"{os.getpid()}7"
    (lab.home / ".ssh").mkdir(exist_ok=True)
    (lab.home / ".ssh/id").write_text("a private key")
    workspace.write("rollouts/hostile/main.py", ROLLOUT.read_text())
    workspace.write(
        "rollouts/hostile/pyproject.toml",
        '[project]\nname = "hostile"\nversion = "0.1"\ndependencies = ["osmosis-platform"]\n',
    )
    off = has_own_network(choose_sandbox())
    env = {"DATA": str(lab.data), "USER_HOME": str(lab.home), "MARK": mark}
    env["PORTS"] = str(lab.port) if off else ""
    advanced = {"network": "loopback" if off else "on"}
    config = eval_config("hostile", dataset="multiply", env=env, advanced=advanced, limit=1)
    workspace.write("configs/eval/hostile.toml", config)
    workspace.push("Add a hostile rollout")
    run = workspace.start("configs/eval/hostile.toml")
    info = workspace.wait(run)
    assert info["eval_run"]["status"] == "finished", info["eval_run"]
    if off:
        assert info["effective"]["sandbox"].endswith("no network but its own loopback")
    sample = workspace.api(f"/api/cli/eval-runs/{run}/samples/0/0")
    assert sample["steps"][-1]["message"] == "[]"
    assert sample.get("artifacts", []) == []
    assert "root:" not in json.dumps(sample)
    deadline = time.monotonic() + 10
    while left := command_lines_with(f"98{mark}"):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    written = [str(path) for path in lab.data.rglob("written-by-user-code")]
    assert written == []
