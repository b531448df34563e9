"""The published `osmosis eval run` drives a rollout written with our SDK."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import uv

from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port
from osmosis.evaluation.sdk_wheel import sdk_wheel
from tests.e2e.configs import eval_config
from tests.interop.environments import new_environment, require_new_python

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

ROWS, RUNS = 4, 2
PYPROJECT = """[project]
name = "multiply"
version = "0.1.0"
requires-python = ">=3.12"
dependencies = ["osmosis-platform>=0.1.0"]

[tool.uv.sources]
osmosis-platform = {{ path = "{wheel}" }}
"""
VALIDATE = """
import sys
from pathlib import Path
from osmosis_ai.rollout.trajectory.atif import Trajectory
for path in sys.argv[1:]:
    Trajectory.model_validate_json(Path(path).read_bytes())
print(len(sys.argv) - 1)
"""


@pytest.fixture(scope="module")
def new_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return require_new_python(tmp_path_factory.mktemp("probe"))


@pytest.fixture(scope="module")
def runner(new_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("vendor-eval") / "venv"
    return new_environment(directory, new_python, "osmosis-ai[eval]==0.3.8") / "osmosis"


@pytest.fixture(scope="module")
def workspace(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example workspace, not connected to any platform, with our SDK as a wheel."""
    directory = lab.copy_example_workspace("their-runner")
    wheel = sdk_wheel(tmp_path_factory.mktemp("sdk")).path
    rollout = directory / "rollouts/multiply/pyproject.toml"
    rollout.write_text(PYPROJECT.format(wheel=wheel))
    config = eval_config("multiply", model="hosted_vllm/mock", limit=ROWS, n=RUNS, batch_size=ROWS)
    (directory / "configs/eval/theirs.toml").write_text(config)
    git = ["git", "-C", directory]
    lab.run([*git, "init", "-q", "-b", "main"])
    lab.run([*git, "remote", "add", "origin", "https://github.com/acme/alpha"])
    lab.run([*git, "add", "-A"])
    lab.run([*git, "commit", "-q", "-m", "Start"])
    return directory


def test_their_runner_evaluates_our_rollout_and_keeps_valid_trajectories(
    lab: Lab, runner: Path, new_python: Path, workspace: Path
) -> None:
    with mock_model(free_port(), latency_ms=5) as model:
        command = [runner, "--json", "eval", "run", "configs/eval/theirs.toml", "--yes"]
        done = lab.run(
            [*command, "--dataset-file", "data/multiply.jsonl"],
            cwd=workspace,
            env={
                "PATH": f"{Path(uv.find_uv_bin()).parent}{os.pathsep}{os.environ['PATH']}",
                "HOSTED_VLLM_API_BASE": f"{model}/v1",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "UV_PYTHON": str(new_python),
                "UV_PYTHON_DOWNLOADS": "never",
            },
        )
    ran: dict[str, Any] = json.loads(done.stdout)
    assert ran["status"] == "success"
    result = ran["resource"]
    assert (result["dispatched"], result["succeeded"]) == (ROWS * RUNS, ROWS * RUNS), result
    assert result["metrics"]["graded"] == ROWS * RUNS
    assert result["metrics"]["pass_rate"] == 1.0
    assert result["metrics"]["tokens_used"] > 0

    output = Path(result["output_path"])
    rows = [json.loads(line) for line in (output / "index.jsonl").read_text().splitlines()]
    assert [row["trajectory_filename"] for row in rows] == ["trajectory.json"] * ROWS * RUNS
    kept = sorted(output.glob("trajectories/*.json"))
    checked = subprocess.run(
        [runner.with_name("python"), "-c", VALIDATE, *kept],
        capture_output=True,
        text=True,
        check=True,
    )
    assert checked.stdout.strip() == str(ROWS * RUNS)
    document = json.loads(kept[0].read_text())
    about = document["extra"]["osmosis"]
    assert about["request_extra_fields"] == {"row_index": 0, "run_index": 0}
    assert about["reward"] == 1.0
    assert document["steps"][-1]["message"].startswith("#### ")
