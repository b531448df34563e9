from __future__ import annotations

from pathlib import Path

import pytest

from osmosis.workspace.checks import import_check, path_issues
from osmosis.workspace.config import EvalConfig, parse_eval_config


def config(**experiment: str) -> EvalConfig:
    base = {"rollout": "agent", "entrypoint": "main.py", "model_path": "a/b", "dataset": "d"}
    return parse_eval_config({"experiment": {**base, **experiment}, "secrets": {"required": []}})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "rollouts/agent").mkdir(parents=True)
    (tmp_path / "rollouts/agent/main.py").write_text("import helper\n")
    (tmp_path / "rollouts/agent/helper.py").write_text("")
    return tmp_path


def entrypoint(root: Path, text: str) -> None:
    (root / "rollouts/agent/main.py").write_text(text)


def test_a_rollout_that_is_there_has_no_issues(root: Path):
    assert path_issues(root, config()) == []


def test_a_near_rollout_is_suggested(root: Path):
    (issue,) = path_issues(root, config(rollout="agnet"))
    assert (issue.key, issue.key_correction) == ("experiment.rollout", "agent")


def test_a_near_entrypoint_is_suggested(root: Path):
    (issue,) = path_issues(root, config(entrypoint="mian.py"))
    assert (issue.key, issue.key_correction) == ("experiment.entrypoint", "main.py")


def test_an_entrypoint_that_links_outside_is_refused(root: Path):
    (root / "outside.py").write_text("")
    (root / "rollouts/agent/link.py").symlink_to(root / "outside.py")
    (issue,) = path_issues(root, config(entrypoint="link.py"))
    assert "outside" in issue.message


def test_the_entrypoint_imports_its_neighbours(root: Path):
    assert import_check(root, config()).error is None


def test_an_entrypoint_that_raises_is_refused_with_its_own_frames(root: Path):
    entrypoint(root, "def f():\n    raise ValueError('boom')\n\nf()\n")
    error = import_check(root, config()).error
    assert error is not None
    assert error.endswith("ValueError: boom")
    assert "importlib" not in error


def test_a_missing_module_skips_the_check(root: Path):
    entrypoint(root, "import no_such_module_here\n")
    result = import_check(root, config())
    assert result.error is None
    assert "no_such_module_here" in (result.skipped or "")


def test_undeclared_packages_skip_the_check_before_anything_runs(root: Path):
    entrypoint(root, "raise SystemExit(3)\n")
    (root / "rollouts/agent/pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "0"\ndependencies = ["no-such-package>=1"]\n'
    )
    assert "no-such-package" in (import_check(root, config()).skipped or "")


def test_the_main_guard_is_not_entered(root: Path):
    entrypoint(root, "if __name__ == '__main__':\n    raise SystemExit(3)\n")
    assert import_check(root, config()).error is None
