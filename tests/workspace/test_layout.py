from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from osmosis.wire.errors import NotFound, ValidationFailed, WorkspaceRequired
from osmosis.workspace.layout import (
    REQUIRED_DIRS,
    config_path,
    find_workspace,
    missing_paths,
    require_layout,
    rollout_dir,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    for name in REQUIRED_DIRS:
        (root / name).mkdir(parents=True)
    (root / "configs/eval/multiply.toml").write_text("")
    (root / "rollouts/multiply").mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def test_the_workspace_is_the_top_of_the_work_tree(root: Path):
    assert find_workspace(root / "configs" / "eval") == root


def test_outside_a_work_tree_there_is_no_workspace(tmp_path: Path):
    with pytest.raises(WorkspaceRequired) as failed:
        find_workspace(tmp_path)
    assert "osmosis init" in (failed.value.hint or "")


def test_a_missing_directory_is_named(root: Path):
    (root / "data").rmdir()
    assert missing_paths(root)[0] == "data"
    with pytest.raises(ValidationFailed, match="data/"):
        require_layout(root)


def test_a_config_is_taken_from_the_root(root: Path):
    assert config_path(root, "configs/eval/multiply.toml").name == "multiply.toml"


def test_a_config_may_be_given_relative_to_the_current_directory(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(root / "configs" / "eval")
    assert config_path(root, "multiply.toml").name == "multiply.toml"


def test_a_missing_config_suggests_the_near_one(root: Path):
    with pytest.raises(NotFound, match="Did you mean 'configs/eval/multiply"):
        config_path(root, "configs/eval/multiplly.toml")


@pytest.mark.parametrize("name", ["configs/other.toml", "configs/eval/note.txt", "configs/eval"])
def test_configs_elsewhere_are_refused(root: Path, name: str):
    if not (root / name).exists():
        (root / name).write_text("")
    with pytest.raises(ValidationFailed):
        config_path(root, name)


def test_a_config_that_links_elsewhere_is_refused(root: Path, tmp_path: Path):
    outside = tmp_path / "outside.toml"
    outside.write_text("")
    (root / "configs/eval/link.toml").symlink_to(outside)
    with pytest.raises(ValidationFailed):
        config_path(root, "configs/eval/link.toml")


def test_a_missing_rollout_suggests_the_near_one(root: Path):
    with pytest.raises(NotFound, match="Did you mean 'multiply'"):
        rollout_dir(root, "multply")


def test_a_rollout_that_links_elsewhere_is_refused(root: Path, tmp_path: Path):
    (root / "rollouts/link").symlink_to(tmp_path)
    with pytest.raises(ValidationFailed):
        rollout_dir(root, "link")
