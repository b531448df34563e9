"""What a local run is about: fixed by its first invocation, compared by every later one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osmosis.wire.errors import Conflict, ValidationFailed
from osmosis.workspace.advanced_keys import TUNING
from osmosis.workspace.config import EvalConfig

PROTOCOL = "0.3"
SCHEMA_VERSIONS: dict[str, Any] = {
    "rollout_protocol": PROTOCOL,
    "dataset_normalization": 1,
    "state_schema": 1,
}
SKIPPED_DIRS = frozenset((
    "__pycache__", ".git", ".venv", "venv", "dist", "build", "node_modules",
    ".pytest_cache", ".ruff_cache",
))  # fmt: skip
SKIPPED_FILES = frozenset(["uv.lock"])
SCRIPTED_PREFIX = "scripted/"
CHUNK_BYTES = 1 << 20


def resolved_inputs(
    config: EvalConfig, root: Path, *, dataset_sha256: str, selected: str
) -> dict[str, Any]:
    """``inputs`` of the manifest; the keys at the top are what a refusal names."""
    experiment, evaluation = config.experiment, config.evaluation
    advanced = config.advanced.model_dump(exclude_unset=True, exclude_none=True)
    inputs: dict[str, Any] = {
        "model_path": experiment.model_path,
        "dataset": {"sha256": dataset_sha256, "selected_source_rows": selected},
        "n": evaluation.n,
        "rollout": {
            "name": experiment.rollout,
            "entrypoint": experiment.entrypoint,
            "source_digest": source_digest(root / "rollouts" / experiment.rollout),
        },
        "env": dict(config.env),
        "secret_names": sorted(config.secrets.required),
        "timeouts": {
            "agent_timeout_sec": evaluation.agent_workflow_timeout_s,
            "grader_timeout_sec": evaluation.grader_timeout_s,
        },
        "advanced": {key: value for key, value in advanced.items() if key not in TUNING},
        "versions": dict(SCHEMA_VERSIONS),
    }
    if experiment.model_path.startswith(SCRIPTED_PREFIX):
        script = root / experiment.model_path.removeprefix(SCRIPTED_PREFIX)
        if script.is_file():
            inputs["model_file"] = file_sha256(script)
    return inputs


def check_unchanged(name: str, locked: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to mix results of different inputs under one name."""
    changed = sorted(key for key in {*locked, *now} if locked.get(key) != now.get(key))
    if changed:
        raise Conflict(
            f"The local run '{name}' was started with other inputs: {', '.join(changed)} changed.",
            hint="Put them back, choose another --name, or start over with --fresh.",
            details={"changed": changed},
        )


def source_digest(directory: Path) -> str:
    """Of the relative paths and bytes of a rollout's files, without what builds leave there."""
    digest = hashlib.sha256()
    found: list[tuple[str, Path]] = []
    for folder, folders, files in os.walk(directory):
        here = Path(folder)
        kept = [n for n in folders if n not in SKIPPED_DIRS and not n.endswith(".egg-info")]
        for name in kept:
            if (here / name).is_symlink():
                raise ValidationFailed(
                    f"{here / name} is a link to a directory; a local run cannot fix its contents.",
                    hint="Put the directory itself there.",
                )
        folders[:] = kept
        for name in files:
            path = here / name
            if name not in SKIPPED_FILES and path.is_file():
                found.append((path.relative_to(directory).as_posix(), path))
    for relative, path in sorted(found):
        digest.update(f"{relative}\0".encode())
        digest.update(bytes.fromhex(file_sha256(path)))
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
