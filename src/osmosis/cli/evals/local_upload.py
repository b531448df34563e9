"""``eval upload``: a finished run directory, checked and sent."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from osmosis.cli.output.messages import note
from osmosis.cli.session import session
from osmosis.client.imports import LocalFile, import_run
from osmosis.evaluation.local.inputs import SCHEMA_VERSIONS, file_sha256
from osmosis.evaluation.local.run_directory import RunDirectory, read_json
from osmosis.wire.errors import Conflict, NotFound, ValidationFailed

PROVENANCE = (
    "sdk_version",
    "git_head",
    "git_branch",
    "git_dirty",
    "config_branch",
    "config_commit_sha",
)
ROLLOUT_ID = re.compile(r"[0-9a-f]{32}")
RESERVED = "manifest.json"
MAX_PATH_CHARS = 1024


def upload(given: Path, *, replace: bool) -> dict[str, Any]:
    """Import the run; the answer says what it has become."""
    directory = _find(given)
    with directory.locked():
        declaration = _declaration(directory, replace=replace)
        files = _files(directory)
        note(f"Importing {directory.name}: {len(files)} files.")

        def told(done: int, total: int) -> None:
            if done < total:
                note(f"  {done} of {total} files")

        state = import_run(session.api, declaration, files, progress=told)
    kept = ("session_id", "status", "expected_files", "uploaded_files")
    return {
        "local_run_id": declaration["local_run_id"],
        "local_run_path": str(directory.path),
        **{key: state.get(key) for key in (*kept, "eval_run_id", "eval_run_name", "platform_url")},
    }


def _find(given: Path) -> RunDirectory:
    """By path, or by name below the workspace's ``.osmosis/evals``."""
    path = given.expanduser().absolute()
    if not path.is_dir() and len(given.parts) == 1:
        path = session.root / ".osmosis" / "evals" / given
    if not (path / "manifest.json").is_file():
        raise NotFound(
            f"{given} is no run directory: there is no manifest.json in it.",
            hint="Name the directory that `osmosis eval run` printed.",
        )
    return RunDirectory(path.parent, path.name)


def _declaration(directory: RunDirectory, *, replace: bool) -> dict[str, Any]:
    manifest = directory.read_manifest() or {}
    metrics = read_json(directory.path / "metrics.json") or {}
    run, summary = metrics.get("eval_run") or {}, metrics.get("summary") or {}
    if run.get("status") != "finished":
        raise Conflict(
            f"The run '{directory.name}' is not complete.",
            hint="Run its `osmosis eval run` command again with the same --name, then upload it.",
        )
    inputs, provenance = manifest["inputs"], manifest.get("provenance") or {}
    rollout = {
        "name": inputs["rollout"]["name"],
        "source_digest": inputs["rollout"]["source_digest"],
        "branch": provenance.get("config_branch"),
        "commit_sha": provenance.get("config_commit_sha"),
    }
    return {
        "schema_version": 1,
        "local_run_id": manifest["local_run_id"],
        "manifest_digest": hashlib.sha256(directory.manifest.read_bytes()).hexdigest(),
        "run": {
            "name": directory.name,
            "started_at": run["started_at"],
            "completed_at": run["completed_at"],
            "experiment_config": {
                "rollout": {key: value for key, value in rollout.items() if value},
                "entrypoint": inputs["rollout"]["entrypoint"],
                "model_path": inputs["model_path"],
                "dataset": {"name": run["dataset_name"], **inputs["dataset"]},
            },
            "evaluation_config": {
                "n": inputs["n"],
                "pass_threshold": summary["pass_threshold"],
            },
        },
        "schema_versions": dict(SCHEMA_VERSIONS),
        "provenance": {key: provenance[key] for key in PROVENANCE if key in provenance},
        "reimport": replace,
    }


def _files(directory: RunDirectory) -> list[LocalFile]:
    """Index, progress, log, and the trajectories and artifacts that the index names."""
    root = directory.path
    names = ["index.jsonl", "progress.json"]
    names += ["logs.txt"] if directory.logs.is_file() else []
    files = [_file(root / name, name) for name in names]
    for line in (root / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        rollout_id = str(row["rollout_id"])
        if not ROLLOUT_ID.fullmatch(rollout_id):
            raise ValidationFailed(f"index.jsonl names the odd rollout '{rollout_id[:64]}'.")
        trial, place = directory.trial(rollout_id), f"rollout_trials/{rollout_id}"
        if name := row.get("trajectory_filename"):
            files.append(_file(trial / Path(name).name, f"{place}/{Path(name).name}"))
        files += _artifacts(trial / "artifacts", f"{place}/artifacts")
    return files


def _artifacts(top: Path, place: str) -> list[LocalFile]:
    found: list[LocalFile] = []
    for folder, folders, names in os.walk(top):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not (here / name).is_symlink())
        for name in sorted(names):
            path = here / name
            relative = path.relative_to(top).as_posix()
            if relative != RESERVED and path.is_file() and not path.is_symlink():
                found.append(_file(path, f"{place}/{relative}"))
    return found


def _file(source: Path, path: str) -> LocalFile:
    if not source.is_file():
        raise ValidationFailed(f"The run's file {path} is missing, so it cannot be imported.")
    if len(path) > MAX_PATH_CHARS:
        raise ValidationFailed(f"The path {path[:100]}… is longer than {MAX_PATH_CHARS}.")
    return LocalFile(path, source, source.stat().st_size, file_sha256(source))
