"""Datasets, secrets and endpoints against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Osmosis

ROWS = "".join(
    json.dumps({"user_prompt": f"q{n}", "ground_truth": str(n)}) + "\n" for n in range(6)
)


@pytest.fixture
def rows(workspace: Path) -> Path:
    path = workspace / "data" / "tiny.jsonl"
    path.write_text(ROWS)
    return path


def test_a_dataset_is_uploaded_shown_and_deleted(rows: Path, near: Osmosis):
    done = near("--json", "dataset", "upload", rows, "--yes", "--wait").json
    assert done["operation"] == "dataset.upload"
    assert done["resource"]["status"] == "uploaded"
    assert done["resource"]["git"]["identity"]
    (item,) = near("--json", "dataset", "list").json["items"]
    assert (item["file_name"], item["row_count"]) == ("tiny", 6)
    info = near("--json", "dataset", "info", "tiny").json["data"]
    assert info["file_size"] == len(ROWS)
    preview = near("--json", "dataset", "preview", "tiny", "--rows", "2").json["data"]
    assert [row["user_prompt"] for row in preview["rows"]] == ["q0", "q1"]
    assert near("--json", "dataset", "logs", "tiny").json["items"]
    assert near("--json", "dataset", "delete", "tiny", "--yes").json["status"] == "success"
    assert near("--json", "dataset", "info", "tiny").error["code"] == "NOT_FOUND"


def test_an_upload_asks_first(rows: Path, near: Osmosis):
    error = near("--json", "dataset", "upload", rows).error
    assert error["code"] == "INTERACTIVE_REQUIRED"
    assert error["details"]["prompt"] == f"Upload tiny.jsonl ({len(ROWS)} B, 6 rows) as 'tiny'?"


def test_a_second_upload_needs_overwrite(rows: Path, near: Osmosis):
    assert near("dataset", "upload", rows, "--yes", "--wait").code == 0
    error = near("--json", "dataset", "upload", rows, "--yes").error
    assert error["code"] == "CONFLICT"
    assert "--overwrite" in error["details"]["hint"]
    rows.write_text(ROWS + ROWS)
    assert near("dataset", "upload", rows, "--yes", "--overwrite", "--wait").code == 0
    assert near("--json", "dataset", "info", "tiny").json["data"]["row_count"] == 12


def test_a_wrong_file_is_refused_before_anything_is_sent(workspace: Path, near: Osmosis):
    path = workspace / "data" / "wrong.jsonl"
    path.write_text('{"question": "x", "ground_truth": "1"}\n' * 4)
    error = near("--json", "dataset", "upload", path, "--yes").error
    assert error["code"] == "VALIDATION"
    assert "user_prompt" in error["message"]
    assert near("--json", "dataset", "list").json["items"] == []


def test_validate_needs_no_server(osmosis: Osmosis, tmp_path: Path):
    path = tmp_path / "tiny.jsonl"
    path.write_text(ROWS)
    data = osmosis("--json", "dataset", "validate", path).json["data"]
    assert (data["valid"], data["extension"], data["errors"]) == (True, "jsonl", [])
    path.write_text(ROWS + "not json\n")
    error = osmosis("--json", "dataset", "validate", path).error
    assert error["details"]["valid"] is False
    assert "7" in error["details"]["errors"][0]


@pytest.mark.parametrize("name", ["missing.jsonl", "notes.txt"])
def test_other_files_are_no_datasets(osmosis: Osmosis, tmp_path: Path, name: str):
    (tmp_path / "notes.txt").write_text("x")
    assert osmosis("dataset", "validate", tmp_path / name).code == 1


@pytest.mark.usefixtures("workspace")
def test_a_secret_comes_by_pipe_or_variable_and_is_never_shown(
    near: Osmosis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MY_VALUE", "canary-1")
    done = near("--json", "secret", "set", "FIRST_KEY", "--env", "MY_VALUE")
    assert done.json["resource"]["scope"] == "personal"
    piped = near("secret", "set", "SECOND_KEY", "--scope", "workspace", stdin="canary-2\n")
    assert piped.code == 0
    listed = near("--json", "secret", "list")
    assert {item["name"]: item["scope"] for item in listed.json["items"]} == {
        "FIRST_KEY": "personal",
        "SECOND_KEY": "workspace",
    }
    for shown in (done, piped, listed):
        assert "canary" not in shown.out + shown.err


@pytest.mark.usefixtures("workspace")
def test_a_secret_without_a_value_is_refused(near: Osmosis):
    assert near("--json", "secret", "set", "KEY").error["code"] == "INTERACTIVE_REQUIRED"
    assert near("--json", "secret", "set", "KEY", "--env", "NOT_SET").error["code"] == "VALIDATION"
    assert near("--json", "secret", "set", "lower", stdin="x").error["code"] == "VALIDATION"


@pytest.mark.usefixtures("workspace")
def test_deleting_looks_in_the_other_scope_too(near: Osmosis):
    near("secret", "set", "KEY", "--scope", "workspace", stdin="x")
    error = near("--json", "secret", "delete", "KEY", "--yes").error
    assert error["code"] == "NOT_FOUND"
    assert "--scope workspace" in error["details"]["hint"]
    assert near("secret", "delete", "KEY", "--scope", "workspace", "--yes").code == 0
    assert near("--json", "secret", "list").json["items"] == []


@pytest.mark.usefixtures("workspace")
def test_endpoints_are_added_listed_and_removed(near: Osmosis):
    words = ["model", "endpoint", "add", "local", "--base-url", "http://127.0.0.1:9/v1"]
    done = near("--json", *words, "--model", "m", "--api-key-secret", "LOCAL_KEY").json
    assert done["operation"] == "model.endpoint.add"
    assert done["next_steps_structured"][0]["command"] == "osmosis secret set LOCAL_KEY"
    (item,) = near("--json", "model", "endpoint", "list").json["items"]
    assert (item["name"], item["model"]) == ("local", "m")
    assert near("model", "endpoint", "remove", "local", "--yes").code == 0
    assert near("--json", "model", "endpoint", "remove", "local", "--yes").error["code"] == (
        "NOT_FOUND"
    )


def test_a_next_step_can_be_pasted_into_a_shell(rows: Path, near: Osmosis):
    spaced = rows.rename(rows.with_name("two words.jsonl"))
    done = near("--json", "dataset", "upload", spaced, "--yes").json
    commands = [step.get("command", "") for step in done["next_steps_structured"]]
    assert "osmosis dataset info 'two words'" in commands
