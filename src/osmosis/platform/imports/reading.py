"""The files of an import as samples; the first thing that does not fit refuses all of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from osmosis.platform.imports.declaration import (
    ARTIFACTS,
    INDEX,
    PROGRESS,
    TRAJECTORY_NAME,
    TRIAL,
)
from osmosis.platform.imports.sessions import ImportSession
from osmosis.platform.imports.trajectories import problem_of
from osmosis.wire.errors import ValidationFailed
from osmosis.wire.samples import SampleRecord

MAX_SHOWN_CHARS = 200


class IndexRow(BaseModel):
    """One line of ``index.jsonl`` (platform-api.md §4.2)."""

    model_config = ConfigDict(allow_inf_nan=False, strict=True)

    row_index: int = Field(ge=0)
    run_index: int = Field(ge=0)
    rollout_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    status: Literal["success", "failed", "skipped"]
    trajectory_filename: str | None = None
    reward: float | None = None
    tokens: int | None = Field(default=None, ge=0, lt=2**63)
    duration_ms: float = Field(ge=0)
    error_type: str | None = Field(default=None, max_length=4000)


class Progress(BaseModel):
    total_runs: int = Field(ge=1)
    sampled_rows: int = Field(ge=1)
    total_dataset_rows: int = Field(ge=1, lt=2**53)


def read_progress(session: ImportSession) -> Progress:
    try:
        progress = Progress.model_validate_json(session.place(PROGRESS).read_bytes())
    except ValidationError as error:
        raise _refused(PROGRESS, error) from None
    n = session.declaration.run.evaluation_config.n
    if progress.total_runs != progress.sampled_rows * n:
        raise ValidationFailed(
            f"{PROGRESS} plans {progress.total_runs} samples, but {progress.sampled_rows} rows of "
            f"{n} runs each make {progress.sampled_rows * n}."
        )
    selected = len(session.declaration.source_rows)
    if selected != progress.sampled_rows:
        raise ValidationFailed(
            f"{selected} rows were selected, but {PROGRESS} speaks of {progress.sampled_rows}."
        )
    return progress


def read_samples(session: ImportSession, progress: Progress) -> Iterator[SampleRecord]:
    """Every sample with its trajectory, by row and run."""
    rows = _index(session, progress)
    source_rows = session.declaration.source_rows
    started = session.declaration.run.started_at.timestamp()
    artifacts = _artifacts(session)
    unknown = set(artifacts) - {row.rollout_id for row in rows}
    if unknown:
        raise ValidationFailed(f"{INDEX} has no sample of rollout {sorted(unknown)[0]}.")
    for row in rows:
        trajectory = _trajectory(session, row)
        totals = (trajectory or {}).get("final_metrics") or {}
        yield SampleRecord(
            **row.model_dump(exclude={"trajectory_filename"}),
            source_row=source_rows[row.row_index],
            started_at=started,
            finished_at=started + row.duration_ms / 1000,
            prompt_tokens=_count(totals.get("total_prompt_tokens")),
            completion_tokens=_count(totals.get("total_completion_tokens")),
            trajectory=trajectory,
            artifacts=artifacts.get(row.rollout_id, []),
        )


def _index(session: ImportSession, progress: Progress) -> list[IndexRow]:
    n = session.declaration.run.evaluation_config.n
    rows: list[IndexRow] = []
    for number, line in enumerate(session.place(INDEX).read_bytes().splitlines(), start=1):
        try:
            rows.append(IndexRow.model_validate_json(line))
        except ValidationError as error:
            raise _refused(f"{INDEX}, line {number}", error) from None
    planned = [(row, run) for row in range(progress.sampled_rows) for run in range(n)]
    if sorted((row.row_index, row.run_index) for row in rows) != planned:
        raise ValidationFailed(
            f"{INDEX} must have each of the {len(planned)} samples once; it has {len(rows)} lines.",
            hint="Only a complete run can be imported: finish it with `osmosis eval run`.",
        )
    if len({row.rollout_id for row in rows}) != len(rows):
        raise ValidationFailed(f"{INDEX} names a rollout twice.")
    return sorted(rows, key=lambda row: (row.row_index, row.run_index))


def _artifacts(session: ImportSession) -> dict[str, list[str]]:
    """The paths of the artifacts of each rollout."""
    found: dict[str, list[str]] = {}
    for path in session.numbers:
        trial = TRIAL.fullmatch(path)
        if trial and trial[2].startswith(ARTIFACTS):
            found.setdefault(trial[1], []).append(trial[2].removeprefix(ARTIFACTS))
    return {rollout_id: sorted(paths) for rollout_id, paths in found.items()}


def _trajectory(session: ImportSession, row: IndexRow) -> dict[str, Any] | None:
    name = row.trajectory_filename
    if name is None:
        return None
    path = f"rollout_trials/{row.rollout_id}/{name}"
    if not TRAJECTORY_NAME.fullmatch(name) or path not in session.numbers:
        raise ValidationFailed(f"{INDEX} names the trajectory '{path[:200]}', which was not sent.")
    try:
        document = orjson.loads(session.place(path).read_bytes())
    except orjson.JSONDecodeError as error:
        raise ValidationFailed(f"{path} is not valid JSON: {error}.") from None
    if problem := problem_of(document):
        raise ValidationFailed(f"{path} is no ATIF trajectory: {problem}.")
    ours = _inner(_inner(document, "extra"), "osmosis")
    named = str(document.get("trajectory_id") or "").partition("/")[0]
    identity = ours.get("rollout_id") or document.get("session_id") or named
    if identity != row.rollout_id:
        raise ValidationFailed(f"{path} is the trajectory of another rollout.")
    place = _inner(ours, "request_extra_fields")
    if (place.get("row_index"), place.get("run_index")) != (row.row_index, row.run_index):
        raise ValidationFailed(
            f"{path} says that it is of another sample than row {row.row_index}, run "
            f"{row.run_index}."
        )
    return document


def _inner(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    plain = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if plain else None


def _refused(where: str, error: ValidationError) -> ValidationFailed:
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    key = ".".join(map(str, problem["loc"]))
    return ValidationFailed(f"{where}: {key or 'the line'}: {problem['msg']}"[:MAX_SHOWN_CHARS])
