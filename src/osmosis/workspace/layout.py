"""Where things are in a workspace. The workspace is the top level of a git work tree."""

from __future__ import annotations

from pathlib import Path

from osmosis.wire.errors import NotFound, ValidationFailed, WorkspaceRequired, did_you_mean
from osmosis.workspace.git import run_git

REQUIRED_DIRS = ("rollouts", "configs/training", "configs/eval", "data")
REQUIRED_FILES = ("AGENTS.md", "CLAUDE.md", "configs/AGENTS.md")
EVAL_CONFIGS = "configs/eval"
TRAINING_CONFIGS = "configs/training"
ROLLOUTS = "rollouts"


def find_workspace(start: Path) -> Path:
    """The top level of the git work tree that holds ``start``."""
    result = run_git(start, "rev-parse", "--show-toplevel")
    if result.code != 0 or not result.text:
        raise WorkspaceRequired(
            f"{start} is not inside a workspace (a git work tree).",
            hint="Change to your workspace, or make one with `osmosis init DIR`. "
            "Commands that need no files take `--workspace NAME`, too.",
        )
    return Path(result.text)


def missing_paths(root: Path) -> list[str]:
    """Required directories and files that are not there, as relative POSIX paths."""
    directories = [name for name in REQUIRED_DIRS if not (root / name).is_dir()]
    return directories + [name for name in REQUIRED_FILES if not (root / name).is_file()]


def require_layout(root: Path) -> None:
    """Refuse a work tree that lacks a required directory."""
    missing = [name for name in REQUIRED_DIRS if not (root / name).is_dir()]
    if missing:
        raise ValidationFailed(
            f"{root} is not a complete workspace: missing {', '.join(m + '/' for m in missing)}.",
            hint="Add them with `osmosis doctor --fix`.",
            details={"missing": missing},
        )


def config_path(root: Path, given: str | Path, *, folder: str = EVAL_CONFIGS) -> Path:
    """The config that ``given`` names: a TOML file under ``configs/eval``, relative to ``root``."""
    base = (root / folder).resolve()
    candidate = root / Path(given).expanduser()
    if not candidate.exists() and Path(given).exists():
        candidate = Path(given)
    path = candidate.resolve()
    if not path.exists():
        known = [str(p.relative_to(root)) for p in sorted((root / folder).rglob("*.toml"))]
        raise NotFound(
            f"There is no config {given}.{did_you_mean(str(given), known)}",
            hint=f"Configs of this workspace: {', '.join(known[:10])}." if known else None,
        )
    if not path.is_file() or path.suffix != ".toml" or not path.is_relative_to(base):
        raise ValidationFailed(
            f"{given} is not a config of this workspace: it must be a .toml file under {folder}/."
        )
    return path


def shown_path(root: Path, path: Path) -> str:
    """``path`` relative to the workspace when it is inside, for messages."""
    resolved = root.resolve()
    return str(path.relative_to(resolved)) if path.is_relative_to(resolved) else str(path)


def rollout_names(root: Path) -> list[str]:
    """Directories under ``rollouts/``, hidden ones left out."""
    folder = root / ROLLOUTS
    if not folder.is_dir():
        return []
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.is_dir() and not entry.name.startswith(".")
    )


def rollout_dir(root: Path, name: str) -> Path:
    """The directory of rollout ``name``; it must exist and resolve under ``rollouts/``."""
    path = root / ROLLOUTS / name
    if not path.is_dir():
        raise NotFound(
            f"There is no rollout '{name}' under {ROLLOUTS}/."
            f"{did_you_mean(name, rollout_names(root))}",
            hint=f"Make one with `osmosis rollout init {name}`.",
        )
    resolved = path.resolve()
    if resolved.parent != (root / ROLLOUTS).resolve():
        raise ValidationFailed(f"The rollout '{name}' leads outside {ROLLOUTS}/.")
    return resolved
