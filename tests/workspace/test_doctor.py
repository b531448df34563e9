from __future__ import annotations

from pathlib import Path

import pytest

from osmosis.wire.errors import ValidationFailed
from osmosis.workspace import doctor
from osmosis.workspace.scaffold import create_workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_workspace(tmp_path / "demo").root


def test_missing_paths_are_listed_and_fixed(root: Path):
    (root / "AGENTS.md").unlink()
    (root / "configs/training/multiply.toml").unlink()
    (root / "configs/training").rmdir()
    assert doctor.check(root).missing == ["configs/training", "AGENTS.md"]
    assert doctor.fix(root) == ["configs/training/.gitkeep", "AGENTS.md"]
    assert doctor.check(root).valid


def test_fix_overwrites_nothing(root: Path):
    (root / "AGENTS.md").write_text("mine")
    assert doctor.fix(root) == []
    assert (root / "AGENTS.md").read_text() == "mine"


def test_fix_writes_through_no_symlink(root: Path, tmp_path: Path):
    (root / "CLAUDE.md").unlink()
    (root / "CLAUDE.md").symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(ValidationFailed):
        doctor.fix(root)
    assert not (tmp_path / "elsewhere.md").exists()


def test_configs_that_cannot_run_are_told_with_their_reason(root: Path):
    (root / "configs/eval/broken.toml").write_text("[experiment\n")
    text = (root / "configs/eval/multiply.toml").read_text()
    (root / "configs/eval/other.toml").write_text(text.replace('"main.py"', '"mian.py"'))
    report = doctor.check(root)
    assert report.valid
    assert set(report.config_problems) == {"configs/eval/broken.toml", "configs/eval/other.toml"}
    assert report.config_problems["configs/eval/other.toml"][0].key_correction == "main.py"
