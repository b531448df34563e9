from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Osmosis, git, push


def test_a_new_workspace_is_connected_and_can_push(workspace: Path, near: Osmosis):
    assert "/git/" in git(workspace, "remote", "get-url", "origin")
    push(workspace)
    (rollout,) = near("--json", "rollout", "list").json["items"]
    assert rollout["name"] == "multiply"
    head = git(workspace, "rev-parse", "HEAD").strip()
    assert rollout["last_synced_commit_sha"] == head


def test_no_token_is_written_into_the_repository(workspace: Path, server_data: Path):
    push(workspace)
    token = (server_data / "local-token").read_text().strip()
    for path in (workspace / ".git").rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes()


def test_a_new_branch_is_pushed_without_flags(workspace: Path, near: Osmosis):
    git(workspace, "switch", "-q", "-c", "dev")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "dev")
    push(workspace)
    listed = near("--json", "rollout", "list", "--branch", "dev").json
    assert (
        listed["items"][0]["last_synced_commit_sha"] == git(workspace, "rev-parse", "HEAD").strip()
    )


def test_init_again_keeps_everything(workspace: Path, near: Osmosis):
    before = git(workspace, "remote", "get-url", "origin")
    done = near("--json", "init", workspace).json
    assert done["resource"]["created"] == []
    assert "git commit" not in str(done["next_steps_structured"])
    assert done["resource"]["connected"]
    assert git(workspace, "remote", "get-url", "origin") == before


def test_without_a_server_the_files_are_made_and_the_next_step_told(
    osmosis: Osmosis, tmp_path: Path
):
    done = osmosis("--json", "init", tmp_path / "demo")
    assert done.code == 0
    assert done.json["resource"]["connected"] is False
    assert "osmosis server start" in done.err
    assert (tmp_path / "demo/rollouts/multiply/main.py").exists()
    steps = [step.get("command") for step in done.json["next_steps_structured"]]
    assert "osmosis workspace connect" in steps


def test_a_workspace_is_connected_later(
    osmosis: Osmosis, server_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = tmp_path / f"later-{os.urandom(3).hex()}"
    assert osmosis("init", root, "--offline").code == 0
    monkeypatch.chdir(root)
    monkeypatch.setenv("OSMOSIS_DATA_DIR", str(server_data))
    assert osmosis("workspace", "connect").code == 0
    push(root)
    assert osmosis("--json", "rollout", "list").json["total_count"] == 1


def test_an_own_origin_is_left_alone(near: Osmosis, tmp_path: Path):
    root = tmp_path / "mine"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "remote", "add", "origin", "https://gitlab.com/a/b.git")
    done = near("init", root)
    assert done.code == 0
    assert "osmosis workspace connect https://gitlab.com/a/b.git" in done.err
    assert git(root, "remote", "get-url", "origin").strip() == "https://gitlab.com/a/b.git"


def test_doctor_finds_and_mends(workspace: Path, near: Osmosis):
    (workspace / "AGENTS.md").unlink()
    error = near("--json", "doctor").error
    assert error["code"] == "VALIDATION"
    assert error["details"]["missing"] == ["AGENTS.md"]
    done = near("--json", "doctor", "--fix").json
    assert done["resource"]["fixed"] == ["AGENTS.md"]
    assert done["resource"]["workspace"]["role"] == "owner"
    assert near("doctor").code == 0


def test_doctor_tells_of_configs_that_cannot_run(workspace: Path, near: Osmosis):
    (workspace / "configs/eval/bad.toml").write_text("[experiment]\nrollot = 'x'\n")
    done = near("doctor")
    assert done.code == 0
    assert "configs/eval/bad.toml: experiment.rollot (line 2)" in done.err
    (workspace / "configs/eval/bad.toml").write_text("n == 2\n")
    assert near("doctor").err.count("bad.toml") == 1


def test_a_new_rollout_passes_doctor(workspace: Path, near: Osmosis):
    done = near("--json", "rollout", "init", "my-agent").json
    assert "rollouts/my-agent/main.py" in done["resource"]["created"]
    assert near("--json", "rollout", "init", "my-agent").error["code"] == "CONFLICT"
    assert near("doctor").err == ""


def test_commands_outside_a_workspace_say_so(near: Osmosis):
    for words in (["rollout", "init", "x"], ["eval", "list"], ["dataset", "list"]):
        assert near("--json", *words).error["code"] == "WORKSPACE_REQUIRED"


def test_a_workspace_is_named_from_anywhere(workspace: Path, near: Osmosis, tmp_path: Path):
    os.chdir(tmp_path)
    done = near("--json", "--workspace", workspace.name, "dataset", "list").json
    assert done["workspace"] == {"name": workspace.name}
    assert near("--workspace", "no-such", "dataset", "list").code == 1


def test_a_remote_repository_is_connected_and_known_by_its_directory(
    near: Osmosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = tmp_path / f"remote-{os.urandom(3).hex()}"
    assert near("init", root, "--offline").code == 0
    git(tmp_path, "clone", "-q", "--bare", str(root), "bare.git")
    git(root, "remote", "add", "origin", str(tmp_path / "bare.git"))
    monkeypatch.chdir(root)
    done = near("--json", "workspace", "connect", f"file://{tmp_path}/bare.git")
    assert done.code == 0, done
    assert near("--json", "rollout", "list").json["total_count"] == 1
    assert near("--json", "workspace", "sync").json["status"] == "success"


def test_a_credential_comes_from_a_variable_or_a_file_only(near: Osmosis):
    words = ["workspace", "connect", "https://git.example/a/b.git", "--name", "x"]
    error = near("--json", *words, "--token-env", "NOT_SET").error
    assert "NOT_SET" in error["message"]
    assert near("--json", *words, "--deploy-key", "no-file").error["code"] == "VALIDATION"
    assert near("--json", "workspace", "connect", "--token-env", "X").error["code"] == "VALIDATION"


def test_a_workspace_takes_the_form_of_the_vendors_cli_and_leaves_it_again(
    workspace: Path, near: Osmosis
):
    push(workspace)
    real = git(workspace, "remote", "get-url", "origin").strip()
    before = (workspace / ".git/config").read_text()
    done = near("--json", "workspace", "connect", "--vendor-cli").json["resource"]
    identity = done["repository"]
    assert done["origin"] == f"https://github.com/{identity}"
    assert git(workspace, "remote", "get-url", "origin").strip() == done["origin"]
    assert git(workspace, "remote", "get-url", "--push", "origin").strip() == real
    assert near("--json", "workspace", "connect", "--vendor-cli").json["resource"] == done

    git(workspace, "commit", "-q", "--allow-empty", "-m", "Go on")
    git(workspace, "push", "-q")
    git(workspace, "pull", "-q")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "And on")
    git(workspace, "push", "-q", "origin", "HEAD")
    head = git(workspace, "rev-parse", "HEAD").strip()
    listed = near("--json", "rollout", "list").json
    assert listed["git"]["identity"] == identity
    assert listed["items"][0]["last_synced_commit_sha"] == head
    assert near("--json", "init", workspace).json["resource"]["connected"]
    assert git(workspace, "remote", "get-url", "origin").strip() == done["origin"]

    undone = near("--json", "workspace", "connect", "--vendor-cli", "--undo").json
    assert undone["resource"]["origin"] == real
    assert (workspace / ".git/config").read_text() == before
    git(workspace, "push", "-q")
    assert near("--json", "workspace", "connect", "--undo").error["code"] == "VALIDATION"


def test_the_form_of_the_vendors_cli_keeps_a_remote_of_the_same_name(
    workspace: Path, near: Osmosis
):
    git(workspace, "remote", "add", "osmosis", "https://gitlab.com/a/b.git")
    error = near("--json", "workspace", "connect", "--vendor-cli").error
    assert error["code"] == "CONFLICT" and "https://gitlab.com/a/b.git" in error["message"]
    assert "/git/" in git(workspace, "remote", "get-url", "origin")


def test_a_directory_without_origin_is_connected_in_the_form_of_the_vendors_cli(
    near: Osmosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = tmp_path / f"form-{os.urandom(3).hex()}"
    assert near("init", root, "--offline").code == 0
    monkeypatch.chdir(root)
    made = near("--json", "workspace", "connect", "--vendor-cli").json["resource"]
    assert made["origin"].endswith(f"/{root.name}")
    git(root, "push", "-q")
    assert near("--json", "rollout", "list").json["total_count"] == 1
