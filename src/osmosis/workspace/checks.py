"""What a submit checks on disk: that the config's rollout exists and that its entrypoint imports.

The import is best effort. It runs in a child process of this interpreter, and is skipped with a
reason when the rollout declares packages that this interpreter lacks: the platform builds the
rollout's own environment and finds out for sure.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmosis.wire.errors import Issue, OsmosisError, near
from osmosis.workspace.config import EvalConfig
from osmosis.workspace.layout import ROLLOUTS, rollout_dir, rollout_names

IMPORT_TIMEOUT_S = 30.0
_REQUIREMENT_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_MISSING_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([^']+)'", re.MULTILINE)
_IMPORT = (
    "import importlib.util, sys; sys.path.insert(0, '.'); "
    "spec = importlib.util.spec_from_file_location('rollout_entrypoint', sys.argv[1]); "
    "module = importlib.util.module_from_spec(spec); "
    "sys.modules['rollout_entrypoint'] = module; spec.loader.exec_module(module)"
)


def path_issues(root: Path, config: EvalConfig) -> list[Issue]:
    """Mistakes in ``experiment.rollout`` and ``experiment.entrypoint`` that the disk shows."""
    experiment = config.experiment
    try:
        directory = rollout_dir(root, experiment.rollout)
    except OsmosisError as error:
        match = near(experiment.rollout, rollout_names(root))
        return [Issue(key="experiment.rollout", message=error.message, key_correction=match)]
    entrypoint = (directory / experiment.entrypoint).resolve()
    shown = f"{ROLLOUTS}/{experiment.rollout}/{experiment.entrypoint}"
    if not entrypoint.is_relative_to(directory):
        return [Issue(key="experiment.entrypoint", message=f"{shown} leads outside the rollout")]
    if not entrypoint.is_file():
        known = [path.name for path in directory.glob("*.py")]
        match = near(experiment.entrypoint, known) or (known[0] if len(known) == 1 else None)
        suggestion = f"; did you mean {match}?" if match else ""
        return [
            Issue(
                key="experiment.entrypoint",
                message=f"there is no file {shown}{suggestion}",
                key_correction=match,
            )
        ]
    return []


@dataclass(frozen=True)
class ImportCheck:
    """``error`` refuses the submit; ``skipped`` is the reason why the check says nothing."""

    error: str | None = None
    skipped: str | None = None


def import_check(root: Path, config: EvalConfig) -> ImportCheck:
    """Import the entrypoint once, as the platform will, where this interpreter can."""
    directory = rollout_dir(root, config.experiment.rollout)
    lacking = _lacking_packages(directory / "pyproject.toml")
    if lacking:
        return ImportCheck(skipped=f"this Python lacks {', '.join(lacking)}")
    # A secret's value may be known to the platform alone; an entrypoint may well read it at import.
    stand_ins = dict.fromkeys(config.secrets.required, "not-the-value")
    environment = {**stand_ins, **os.environ, **config.env, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _IMPORT, config.experiment.entrypoint],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=IMPORT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ImportCheck(skipped=f"the import took longer than {IMPORT_TIMEOUT_S:g} s")
    if done.returncode == 0:
        return ImportCheck()
    text = done.stderr.decode("utf-8", "replace").strip()
    if missing := _MISSING_MODULE.search(text):
        return ImportCheck(skipped=f"this Python lacks the module {missing.group(1)}")
    return ImportCheck(error=_last_frames(text, directory) or f"exit code {done.returncode}")


def _lacking_packages(pyproject: Path) -> list[str]:
    try:
        project: dict[str, Any] = tomllib.loads(pyproject.read_text("utf-8")).get("project", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return []
    lacking: list[str] = []
    for requirement in project.get("dependencies", []):
        found = _REQUIREMENT_NAME.match(str(requirement))
        if found and not _installed(found.group(1)):
            lacking.append(found.group(1))
    return lacking


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _last_frames(trace: str, directory: Path) -> str:
    """The frames of the author's own files and the error itself, without the import machinery."""
    lines = trace.splitlines()
    start = next((i for i, line in enumerate(lines) if f'File "{directory}' in line), None)
    return "\n".join(lines[start:] if start is not None else lines[-3:])
