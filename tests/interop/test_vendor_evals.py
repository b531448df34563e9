"""`osmosis eval …` of the published package: one run that half fails, read, retried, read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.workspace import Workspace
from tests.interop.vendor import Vendor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def run(vendor: Vendor, workspace: Workspace, sums: str) -> str:
    """A finished run of 4 rows × 2, in which every second row failed."""
    submitted = vendor("eval", "submit", "configs/eval/flaky.toml", "--yes", MOOD="bad")
    name = submitted["resource"]["name"]
    info = vendor.wait_for_run(name)
    assert info["eval_run"]["status"] == "finished", workspace.osmosis("eval", "logs", name).stdout
    assert info["results"]["graded"] == 4 and info["results"]["failed"] == 4, info["results"]
    assert info["summary"]["progress"] == {"completed": 8, "total": 8, "unit": "samples"}
    return name


def test_logs_are_paged_from_the_newest(vendor: Vendor, run: str) -> None:
    page = vendor("eval", "logs", run, "--limit", "2")
    assert len(page["items"]) == 2 and "The run finished." in page["items"][-1]["message"]
    older = vendor("eval", "logs", run, "--limit", "2", "--cursor", page["next_cursor"])
    assert older["items"][-1]["timestamp"] <= page["items"][0]["timestamp"]


def test_all_kinds_of_files_are_downloaded(vendor: Vendor, run: str, tmp_path: Path) -> None:
    words = ("eval", "download", run, "--type", "all", "-o", tmp_path, "--yes")
    got = vendor(*words)["resource"]
    assert got["files_failed"] == [] and got["files_downloaded"] == got["total_files"]
    assert set(got["breakdown"]) == {"metrics", "trajectories", "artifacts", "logs"}
    files = {path.name: path for path in tmp_path.rglob("*") if path.is_file()}
    metrics = json.loads(files["metrics.json"].read_text())
    assert metrics["summary"]["graded"] == 4 and metrics["eval_run"]["name"] == run
    index = [json.loads(line) for line in files["summary.jsonl"].read_text().splitlines()]
    assert [(row["row_index"], row["run_index"]) for row in index] == [
        (row, number) for row in range(4) for number in range(2)
    ]
    assert {row["error_type"] for row in index if row["status"] == "failed"} == {"agent_error"}
    trajectories = list(tmp_path.rglob("row_*_run_*.json"))
    assert len(trajectories) >= 4
    document = json.loads(trajectories[0].read_text())
    assert document["schema_version"].startswith("ATIF-v1")
    assert len(list(tmp_path.rglob("question.txt"))) == 8
    assert "The run finished." in files["logs.txt"].read_text()
    again = vendor(*words)["resource"]
    assert again["files_skipped"] == again["total_files"] and again["files_downloaded"] == 0


def test_chosen_rows_alone_are_downloaded(vendor: Vendor, run: str, tmp_path: Path) -> None:
    words = ("--type", "artifacts", "--rows", "1,3", "-o", tmp_path, "--yes")
    assert vendor("eval", "download", run, *words)["resource"]["rows"] == "1,3"
    rows = {path.parent.name for path in tmp_path.rglob("question.txt")}
    assert rows == {"row_1_run_0", "row_1_run_1", "row_3_run_0", "row_3_run_1"}
    error = vendor.fails("eval", "download", run, "--rows", "99", "-o", tmp_path, "--yes")
    assert error["code"] == "VALIDATION"


def test_what_failed_is_retried_with_a_new_value(vendor: Vendor, run: str) -> None:
    assert vendor.fails("eval", "stop", run, "--yes")["code"] == "CONFLICT"
    needed = vendor.fails("eval", "retry", run, "--yes")
    assert needed["code"] == "INTERACTIVE_REQUIRED" and needed["details"]["missing"] == ["MOOD"]
    again = vendor("eval", "retry", run, "--yes", MOOD="good")["resource"]
    assert again["name"] == run and again["status"] == "pending"
    assert again["retryable_samples"] == 4 and again["workflow_id"]
    info = vendor.wait_for_run(run)
    assert info["eval_run"]["status"] == "finished"
    assert info["results"]["failed"] == 0 and info["results"]["graded"] == 8
    assert info["results"]["resumed_count"] == 4
    assert info["metrics"]["summary"]["graded"] == 8
    assert vendor.fails("eval", "retry", run, "--yes")["code"] == "CONFLICT"


def test_unknown_runs_and_bad_configs_are_typed_errors(
    vendor: Vendor, workspace: Workspace, run: str
) -> None:
    error = vendor.fails("eval", "info", run[:-1] + "x")
    assert error["code"] == "NOT_FOUND" and run in error["message"]
    text = (workspace.directory / "configs/eval/main.toml").read_text()
    workspace.write("configs/eval/wrong.toml", text.replace("limit = 4", "limit = 0"))
    error = vendor.fails("eval", "submit", "configs/eval/wrong.toml", "--yes", SOME_KEY="x")
    assert error["code"] == "VALIDATION" and "limit" in error["message"]
    (workspace.directory / "configs/eval/wrong.toml").unlink()
