from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Osmosis, git


def test_a_workspace_is_cloned_and_pushed_to(
    workspace: Path, near: Osmosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    git(workspace, "push", "-q")
    monkeypatch.chdir(tmp_path)
    done = near("--json", "quickstart", "-w", workspace.name, "mine")
    assert done.json["resource"]["cloned"] is True
    assert (tmp_path / "mine" / "rollouts" / "multiply" / "main.py").is_file()
    monkeypatch.chdir(tmp_path / "mine")
    git(tmp_path / "mine", "commit", "-q", "--allow-empty", "-m", "More")
    git(tmp_path / "mine", "push", "-q")
    assert "token" not in (tmp_path / "mine" / ".git" / "config").read_text()
    again = near("--json", "quickstart", "-w", workspace.name).json["resource"]
    assert (again["cloned"], again["workspace_directory"]) == (False, str(tmp_path / "mine"))


def test_a_directory_that_is_not_empty_is_left_alone(
    workspace: Path, near: Osmosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    error = near("--json", "quickstart", "-w", workspace.name, workspace).error
    assert error["code"] == "CONFLICT" and "not empty" in error["message"]


def test_an_unknown_workspace_is_told_with_the_near_one(workspace: Path, near: Osmosis):
    error = near("--json", "quickstart", "-w", f"{workspace.name}x").error
    assert f"Did you mean '{workspace.name}'" in error["message"]


def test_who_has_several_workspaces_is_asked(
    workspace: Path, near: Osmosis, monkeypatch: pytest.MonkeyPatch
):
    near("init", workspace.parent / "another")
    error = near("--json", "quickstart").error
    assert error["code"] == "INTERACTIVE_REQUIRED"
    assert workspace.name in error["details"]["choices"]
    monkeypatch.setattr("osmosis.cli.output.mode.Output.interactive", True)
    number = error["details"]["choices"].index(workspace.name) + 1
    done = near("quickstart", stdin=f"none such\n{number}\n")
    assert done.code == 0 and "You are in it" in done.out


def test_upgrade_says_how_and_asks_no_index(osmosis: Osmosis):
    told = osmosis("--json", "upgrade").json
    assert told["status"] == "noop"
    assert told["resource"]["installed_from"] == "checkout"
    assert "git -C" in told["next_steps_structured"][0]["command"]


@pytest.mark.parametrize(
    ("record", "source", "command"),
    [
        ('{"url": "https://h/r.git", "vcs_info": {"vcs": "git"}}', "git", "git+https://h/r.git"),
        ('{"url": "file:///a/b.whl", "archive_info": {}}', "wheel", "WHEEL"),
        (None, "index", "WHEEL"),
    ],
)
def test_upgrade_knows_other_installations(
    osmosis: Osmosis,
    monkeypatch: pytest.MonkeyPatch,
    record: str | None,
    source: str,
    command: str,
):
    monkeypatch.setattr(
        "importlib.metadata.PathDistribution.read_text", lambda *_: record, raising=True
    )
    told = osmosis("--json", "upgrade").json
    assert told["resource"]["installed_from"] == source
    step = told["next_steps_structured"][0]["command"]
    assert command in step and sys.executable in step
