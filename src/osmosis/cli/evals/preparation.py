"""From a config file to the body of a submit: every local check, then the secrets."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from osmosis.cli.arguments import UsageMistake
from osmosis.wire.errors import Issue, ValidationFailed
from osmosis.workspace.checks import import_check, path_issues
from osmosis.workspace.config import EvalConfig, load_eval_config
from osmosis.workspace.layout import config_path, shown_path
from osmosis.workspace.repository import RepositoryState, repository_state

SHOWN_TRACE_LINES = 20


@dataclass
class Prepared:
    """A config that passed the local checks. ``warnings`` never block a submit."""

    config: EvalConfig
    shown: str
    state: RepositoryState
    warnings: list[str] = field(default_factory=list)


def prepare(root: Path, given: str, overrides: Mapping[str, Any]) -> Prepared:
    """Read the config, check it against the disk, look at git. All mistakes come at once."""
    path = config_path(root, given)
    shown = shown_path(root, path)
    issues: list[Issue] = []
    try:
        config = load_eval_config(path, shown=shown, overrides=overrides)
        issues = path_issues(root, config)
        if issues:
            raise ValidationFailed(_headline(shown, issues), issues=issues)
    except ValidationFailed as failed:
        failed.hint = failed.hint or "Every key is explained in configs/AGENTS.md."
        raise
    prepared = Prepared(config, shown, repository_state(root, besides=shown))
    if not _is_another_revision(prepared):
        _check_import(root, prepared)
    prepared.warnings += git_warnings(prepared.state, config)
    return prepared


def git_warnings(state: RepositoryState, config: EvalConfig) -> list[str]:
    """What is on disk but will not run. Only pushed commits run."""
    if config.experiment.commit_sha:
        return []
    warnings: list[str] = []
    if state.head is None:
        return ["Nothing is committed yet. Only pushed commits run."]
    if state.dirty:
        files = (
            "1 changed file is"
            if state.changed_files == 1
            else (f"{state.changed_files} changed files are")
        )
        warnings.append(f"{files} not committed; the run will not see the changes.")
    if state.upstream is None:
        warnings.append("This branch was never pushed; the run uses what the platform has.")
    elif state.ahead:
        commits = "1 commit is" if state.ahead == 1 else f"{state.ahead} commits are"
        warnings.append(f"{commits} not pushed; the run will not see them. `git push` first.")
    return warnings


def parse_overrides(pairs: Sequence[str], named: Mapping[str, Any]) -> dict[str, Any]:
    """``--set section.key=value`` and the flags of their own, as one mapping.

    A value is read as TOML; what is not TOML is text, so ``--set experiment.branch=dev`` works.
    """
    overrides: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key.count(".") != 1:
            raise UsageMistake(f"--set {pair}: write it as --set section.key=value.")
        try:
            overrides[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            overrides[key] = text
    overrides.update({key: value for key, value in named.items() if value is not None})
    return overrides


def _is_another_revision(prepared: Prepared) -> bool:
    """Whether the pinned commit is not what lies on disk, so that an import here says nothing."""
    pinned = prepared.config.experiment.commit_sha
    state = prepared.state
    return bool(pinned) and (state.dirty or not (state.head or "").startswith(str(pinned).lower()))


def _check_import(root: Path, prepared: Prepared) -> None:
    experiment = prepared.config.experiment
    result = import_check(root, prepared.config)
    if result.error:
        trace = "\n  ".join(result.error.splitlines()[-SHOWN_TRACE_LINES:])
        raise ValidationFailed(
            f"rollouts/{experiment.rollout}/{experiment.entrypoint} does not import:\n  {trace}",
            hint="The platform imports it in the same way; mend it first.",
            details={"import_error": result.error},
        )
    if result.skipped:
        prepared.warnings.append(
            f"The entrypoint was not imported here ({result.skipped}); the platform checks it."
        )


def _headline(shown: str, issues: list[Issue]) -> str:
    return f"{shown} has {len(issues)} mistake{'s' if len(issues) != 1 else ''}."
