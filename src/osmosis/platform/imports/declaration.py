"""What a client says of a local run before it sends the files (platform-api.md §3.5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

from osmosis.dataset.selection import parse_ranges
from osmosis.platform.runners.artifacts import FILE_BYTES, PATH_CHARS, safe_path
from osmosis.wire.errors import ValidationFailed

INDEX, PROGRESS, LOGS = "index.jsonl", "progress.json", "logs.txt"
REQUIRED = (INDEX, PROGRESS)
TRIAL = re.compile(r"rollout_trials/([0-9a-f]{32})/(.+)", re.DOTALL)
TRAJECTORY_NAME = re.compile(r"trajectory[A-Za-z0-9._-]*\.json")
ARTIFACTS = "artifacts/"
HEX64 = r"^[0-9a-f]{64}$"
MAX_RUNS_PER_ROW = 1000

Text = Annotated[str, Field(min_length=1, max_length=1000)]


def _moment(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


Moment = Annotated[datetime, AfterValidator(_moment)]


class DeclaredFile(BaseModel):
    path: str = Field(min_length=1, max_length=PATH_CHARS)
    size: int = Field(ge=0, le=FILE_BYTES)
    sha256: str = Field(pattern=HEX64)


class ImportedRollout(BaseModel):
    name: Text
    source_digest: str = Field(default="", max_length=200)
    branch: str | None = Field(default=None, max_length=1000)
    commit_sha: str | None = Field(default=None, max_length=64)


class ImportedDataset(BaseModel):
    name: Text
    sha256: str = Field(default="", max_length=64)
    selected_source_rows: str = Field(min_length=1, max_length=8_000_000)


class ImportedExperiment(BaseModel):
    rollout: ImportedRollout
    entrypoint: Text
    model_path: Text
    dataset: ImportedDataset


class ImportedEvaluation(BaseModel):
    n: int = Field(ge=1, le=MAX_RUNS_PER_ROW)
    pass_threshold: float = Field(default=1.0, allow_inf_nan=False)


class ImportedRun(BaseModel):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$")
    started_at: Moment
    completed_at: Moment
    experiment_config: ImportedExperiment
    evaluation_config: ImportedEvaluation


class Declaration(BaseModel):
    """The body that starts an import. ``reimport`` replaces what came from this run before."""

    schema_version: int = Field(ge=1, le=1)
    local_run_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    manifest_digest: str = Field(pattern=HEX64)
    run: ImportedRun
    schema_versions: dict[str, Any] = Field(default_factory=dict, max_length=20)
    provenance: dict[str, Any] = Field(default_factory=dict, max_length=50)
    files: list[DeclaredFile] = Field(min_length=1)
    reimport: bool = False

    @property
    def source_rows(self) -> Sequence[int]:
        return parse_ranges(self.run.experiment_config.dataset.selected_source_rows)

    def check_files(self) -> None:
        """Refuse a set of files that could not be a run's."""
        paths = [file.path for file in self.files]
        if len(set(paths)) != len(paths):
            raise ValidationFailed("A file is declared twice.", field="files")
        for path in REQUIRED:
            if path not in paths:
                raise ValidationFailed(f"The run's {path} is not among the files.", field="files")
        for path in paths:
            check_path(path)


def check_path(path: str) -> None:
    """Refuse a path that is none of a run's."""
    if path in (INDEX, PROGRESS, LOGS):
        return
    found = TRIAL.fullmatch(path)
    if found and TRAJECTORY_NAME.fullmatch(found[2]):
        return
    if found and found[2].startswith(ARTIFACTS):
        safe_path(Path(), found[1], found[2].removeprefix(ARTIFACTS))
        return
    raise ValidationFailed(
        f"'{path[:200]}' is no file of a local run.",
        hint="A run sends index.jsonl, progress.json, logs.txt, and below rollout_trials/ "
        "trajectories and artifacts.",
        field="files",
    )
