from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from osmosis.wire.errors import Conflict, ValidationFailed
from osmosis.workspace import doctor
from osmosis.workspace.checks import import_check, path_issues
from osmosis.workspace.config import SECTIONS, load_eval_config
from osmosis.workspace.repository import repository_state
from osmosis.workspace.scaffold import create_rollout, create_workspace


def test_a_new_workspace_is_complete_and_committed(tmp_path: Path):
    made = create_workspace(tmp_path / "demo")
    state = repository_state(made.root)
    assert made.committed
    assert not made.adopted
    assert (state.branch, state.dirty) == ("main", False)
    report = doctor.check(made.root)
    assert report.valid
    assert report.config_problems == {}


def test_its_example_passes_the_checks_of_a_submit(tmp_path: Path):
    root = create_workspace(tmp_path / "demo").root
    for name in ("multiply", "multiply-scripted"):
        config = load_eval_config(root / f"configs/eval/{name}.toml")
        assert path_issues(root, config) == []
    assert import_check(root, config).error is None


def test_its_rows_are_right_and_enough(tmp_path: Path):
    root = create_workspace(tmp_path / "demo").root
    rows = [json.loads(line) for line in (root / "data/multiply.jsonl").read_text().splitlines()]
    assert len(rows) == 200
    for row in rows:
        words = row["user_prompt"].rstrip("?").split()
        assert int(words[2]) * int(words[4]) == int(row["ground_truth"])


def test_two_scaffolds_are_the_same(tmp_path: Path):
    one, two = (create_workspace(tmp_path / name / "demo").root for name in ("a", "b"))
    data = "data/multiply.jsonl"
    assert (one / data).read_bytes() == (two / data).read_bytes()


def test_a_workspace_that_exists_keeps_its_files_and_gets_no_commit(tmp_path: Path):
    root = tmp_path / "mine"
    (root / "rollouts" / "own").mkdir(parents=True)
    (root / "README.md").write_text("mine")
    made = create_workspace(root)
    assert made.adopted
    assert not made.committed
    assert (root / "README.md").read_text() == "mine"
    assert not (root / "rollouts" / "multiply").exists()
    assert doctor.check(root).valid
    assert repository_state(root).head is None


def test_a_directory_with_other_things_is_refused(tmp_path: Path):
    (tmp_path / "photo.jpg").write_text("x")
    with pytest.raises(Conflict):
        create_workspace(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_init_twice_changes_nothing(tmp_path: Path):
    root = create_workspace(tmp_path / "demo").root
    again = create_workspace(root)
    assert again.created == []
    assert not repository_state(root).dirty


def test_a_commit_needs_no_git_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("NAME", "EMAIL"):
        for who in ("AUTHOR", "COMMITTER"):
            monkeypatch.delenv(f"GIT_{who}_{name}", raising=False)
    monkeypatch.delenv("EMAIL", raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.useConfigOnly")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    assert create_workspace(tmp_path / "demo").committed


def test_the_config_guide_lists_every_key(tmp_path: Path):
    guide = (create_workspace(tmp_path / "demo").root / "configs/AGENTS.md").read_text()
    for section, model in SECTIONS.items():
        assert f"[{section}]" in guide
        for key in model.model_fields if model else ():
            assert f"| `{key}` |" in guide


@pytest.fixture
def root(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    doctor.fix(tmp_path)
    return tmp_path


def test_a_new_rollout_works_and_names_the_only_dataset(root: Path):
    (root / "data/colours.csv").write_text("")
    created = create_rollout(root, "my-agent")
    assert len(created) == 5
    config = load_eval_config(root / "configs/eval/my-agent.toml")
    assert config.experiment.dataset == "colours"
    assert path_issues(root, config) == []
    assert import_check(root, config).error is None


def test_an_existing_rollout_is_overwritten_only_by_force(root: Path):
    create_rollout(root, "agent")
    main = root / "rollouts/agent/main.py"
    main.write_text("mine")
    with pytest.raises(Conflict, match="agent/main"):
        create_rollout(root, "agent")
    assert main.read_text() == "mine"
    create_rollout(root, "agent", force=True)
    assert main.read_text() != "mine"


@pytest.mark.parametrize("name", ["default", "Agent", "1st", "a_b", "a/b", "", "-a", "a\n"])
def test_rollout_names_follow_the_rule(root: Path, name: str):
    with pytest.raises(ValidationFailed):
        create_rollout(root, name)


def test_a_refused_name_comes_with_a_usable_one(root: Path):
    with pytest.raises(ValidationFailed) as failed:
        create_rollout(root, "My_Agent")
    assert failed.value.hint == "For example: my-agent"


def test_nothing_is_written_through_a_symlink(root: Path, tmp_path_factory: pytest.TempPathFactory):
    outside = tmp_path_factory.mktemp("outside")
    (root / "rollouts/agent").symlink_to(outside)
    with pytest.raises(ValidationFailed, match="symbolic link"):
        create_rollout(root, "agent", force=True)
    assert list(outside.iterdir()) == []
