"""``replay/RUN`` of a local run: a local run's name, or the path of its directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from osmosis.evaluation.journal import read_journal
from osmosis.evaluation.local.run_directory import KEPT_CALLS, RunDirectory
from osmosis.evaluation.plan import KeptSample, ReplaySource
from osmosis.wire.errors import NotFound, ValidationFailed, did_you_mean
from osmosis.workspace.config import EvalConfig

PREFIX = "replay/"


def find_replays(config: EvalConfig, runs_root: Path, workspace: Path) -> tuple[ReplaySource, ...]:
    """The local runs that the config's models name; raises for one that cannot be replayed."""
    models = {
        "policy": config.experiment.model_path,
        "judge": config.advanced.judge_model or "",
    }
    found: dict[str, ReplaySource] = {}
    for route, path in models.items():
        if path.startswith(PREFIX):
            name = path.removeprefix(PREFIX)
            found.setdefault(name, _source(name, route, runs_root, workspace))
    return tuple(found.values())


def _source(name: str, route: str, runs_root: Path, workspace: Path) -> ReplaySource:
    directory = _directory(name, runs_root, workspace)
    manifest = directory.read_manifest()
    if manifest is None:
        raise _not_found(name, runs_root)
    if not any(directory.trials.glob(f"*/{KEPT_CALLS}")):
        raise ValidationFailed(
            f"The local run '{directory.name}' has no kept calls to replay.",
            hint="Run its config again with this version, and replay that run.",
        )

    async def fetch() -> Iterable[KeptSample]:
        return _samples(directory)

    run_id = str(manifest.get("local_run_id", ""))
    return ReplaySource(name, directory.name, _model(manifest, route), fetch, run_id)


def _directory(name: str, runs_root: Path, workspace: Path) -> RunDirectory:
    here = Path(name).expanduser()
    for path in (runs_root / name, here if here.is_absolute() else workspace / here):
        if path.is_dir() and path.parent != path:
            return RunDirectory(path.parent.absolute(), path.name)
    raise _not_found(name, runs_root)


def _not_found(name: str, runs_root: Path) -> NotFound:
    known = [path.parent.name for path in runs_root.glob("*/manifest.json")]
    return NotFound(
        f"There is no local run '{name}' to replay.{did_you_mean(name, known)}",
        hint=f"Name one below {runs_root}, or the path of a run's directory.",
    )


def _model(manifest: dict[str, Any], route: str) -> str:
    inputs = manifest.get("inputs") or {}
    judge = (inputs.get("advanced") or {}).get("judge_model")
    return str((judge if route == "judge" else None) or inputs.get("model_path") or "a model")


def _samples(directory: RunDirectory) -> Iterator[KeptSample]:
    with directory.locked():
        for record in read_journal(directory.journal).values():
            file = directory.trial(record.rollout_id) / KEPT_CALLS
            source_row = record.source_row_index
            if source_row is not None and file.is_file():
                yield KeptSample(source_row, record.run_index, file.read_bytes())
