"""``osmosis doctor``: is the workspace complete, and can its configs be read?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from osmosis.wire.errors import Issue, OsmosisError
from osmosis.workspace.checks import path_issues
from osmosis.workspace.config import load_eval_config
from osmosis.workspace.layout import EVAL_CONFIGS, missing_paths, shown_path
from osmosis.workspace.scaffold.rollout import write_new
from osmosis.workspace.scaffold.workspace import create_directories, guidance_files


@dataclass
class Report:
    """``missing`` decides whether a workspace is valid; ``config_problems`` are advice."""

    root: Path
    missing: list[str]
    config_problems: dict[str, list[Issue]] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        return not self.missing


def check(root: Path) -> Report:
    """Look for required paths and read every evaluation config."""
    report = Report(root=root, missing=missing_paths(root))
    for path in sorted((root / EVAL_CONFIGS).rglob("*.toml")):
        shown = shown_path(root, path.resolve())
        try:
            issues = path_issues(root, load_eval_config(path, shown=shown))
        except OsmosisError as error:
            issues = error.issues or [Issue(key="", message=error.message)]
        if issues:
            report.config_problems[shown] = issues
    return report


def fix(root: Path) -> list[str]:
    """Add what is missing, overwrite nothing; give the created paths."""
    created = create_directories(root)
    for path, text in guidance_files().items():
        if not (root / path).exists():
            write_new(root, path, text)
            created.append(path)
    return created
