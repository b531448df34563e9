"""`osmosis eval upload`: a run directory on disk becomes a run of the platform beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Osmosis
from tests.platform.local_runs import ENDED, STARTED, declared, local_run


def run_directory(root: Path, name: str = "mine", status: str = "finished", **odd: Any) -> Path:
    path = root / ".osmosis" / "evals" / name
    for file, content in local_run(**odd).items():
        target = path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    experiment = declared({})["run"]["experiment_config"]
    dataset = {key: value for key, value in experiment["dataset"].items() if key != "name"}
    manifest = {
        "schema_version": 1,
        "local_run_id": "0a" * 16,
        "run_name": name,
        "created_at": STARTED,
        "inputs": {
            "model_path": "openai/gpt-5-mini",
            "dataset": dataset,
            "n": 2,
            "rollout": {"name": "multiply", "entrypoint": "main.py", "source_digest": "ef" * 32},
        },
        "provenance": {"git_head": "12" * 20, "advanced": {}},
    }
    run = {"status": status, "dataset_name": "sums", "started_at": STARTED, "completed_at": ENDED}
    metrics = {"eval_run": run, "summary": {"pass_threshold": 1.0}}
    (path / "manifest.json").write_text(json.dumps(manifest))
    (path / "metrics.json").write_text(json.dumps(metrics))
    return path


def test_a_finished_run_is_uploaded_by_name_once_and_replaced_when_meant(
    near: Osmosis, workspace: Path
):
    run_directory(workspace)
    done = near("--json", "eval", "upload", "mine")
    assert done.code == 0, done
    resource = done.json["resource"]
    assert resource["eval_run_name"] == "mine"
    assert resource["uploaded_files"] == resource["expected_files"] == 10
    again = near("--json", "eval", "upload", workspace / ".osmosis/evals/mine").json["resource"]
    assert again["eval_run_id"] == resource["eval_run_id"]
    info = near("--json", "eval", "info", "mine").json["data"]
    assert info["results"]["pass_rate"] == 0.5

    run_directory(workspace, generation=1)
    refused = near("--json", "eval", "upload", "mine")
    assert refused.code == 1
    assert refused.error["code"] == "CONFLICT"
    assert "--replace" in refused.error["details"]["hint"]
    replaced = near("--json", "eval", "upload", "mine", "--replace")
    assert replaced.json["resource"]["eval_run_id"] == resource["eval_run_id"]


def test_what_cannot_be_uploaded_is_told_before_anything_is_sent(near: Osmosis, workspace: Path):
    nothing = near("--json", "eval", "upload", "nothing")
    assert (nothing.code, nothing.error["code"]) == (1, "NOT_FOUND")
    run_directory(workspace, "half", status="incomplete")
    half = near("--json", "eval", "upload", "half")
    assert (half.code, half.error["code"]) == (1, "CONFLICT")
    path = run_directory(workspace, "torn")
    next(path.glob("rollout_trials/*/trajectory.json")).unlink()
    torn = near("--json", "eval", "upload", "torn")
    assert torn.code == 1
    assert "is missing" in torn.error["message"]


def test_links_among_the_artifacts_are_not_followed(near: Osmosis, workspace: Path, tmp_path: Path):
    path = run_directory(workspace)
    secret = tmp_path / "secret.txt"
    secret.write_text("private")
    artifacts = next(path.glob("rollout_trials/*/artifacts"))
    (artifacts / "link.txt").symlink_to(secret)
    (artifacts / "dir").symlink_to(tmp_path)
    done = near("--json", "eval", "upload", "mine")
    assert done.json["resource"]["expected_files"] == 10


@pytest.mark.parametrize("mode", ["--json", "--plain"])
def test_the_result_alone_is_on_stdout(near: Osmosis, workspace: Path, mode: str):
    run_directory(workspace)
    done = near(mode, "eval", "upload", "mine")
    assert done.code == 0
    assert "Importing" not in done.out
