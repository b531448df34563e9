"""The readable files of a local run, made anew from the journal's records: never an authority."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from osmosis.evaluation.journal import JournalRecord, Key
from osmosis.evaluation.local.run_directory import (
    RunDirectory,
    read_json,
    write_bytes,
    write_json,
)
from osmosis.metrics.documents import metrics_file
from osmosis.metrics.summary import SampleOutcome, Summary, summarize

TRAJECTORY = "trajectory.json"


@dataclass(frozen=True)
class RunFacts:
    """What the files say of a run beside its samples. Times are ISO 8601."""

    local_run_id: str
    name: str
    dataset: str
    model: str
    rollout: str
    n: int
    pass_threshold: float
    sampled_rows: int
    total_dataset_rows: int
    started_at: str

    @property
    def total_runs(self) -> int:
        return self.sampled_rows * self.n


def summary_of(facts: RunFacts, records: Mapping[Key, JournalRecord]) -> Summary:
    """The run's numbers, by the same formulas as everywhere."""
    outcomes = (
        SampleOutcome(
            r.row_index, r.run_index, r.status, r.reward, r.tokens, r.error_type, r.duration_ms
        )
        for r in records.values()
    )
    return summarize(outcomes, pass_threshold=facts.pass_threshold, n=facts.n)


def write_projections(
    directory: RunDirectory,
    facts: RunFacts,
    records: Mapping[Key, JournalRecord],
    *,
    resumed: Set[Key],
    status: str,
) -> Summary:
    """Write index, summary, progress and metrics, and put copies of new trial files in place."""
    ordered = [records[key] for key in sorted(records)]
    lines = [_index_line(directory, record, resumed=record.key in resumed) for record in ordered]
    index = b"".join(lines)
    write_bytes(directory.path / "index.jsonl", index)
    write_bytes(directory.path / "summary.jsonl", index)
    progress = {
        "total_runs": facts.total_runs,
        "sampled_rows": facts.sampled_rows,
        "total_dataset_rows": facts.total_dataset_rows,
    }
    write_json(directory.path / "progress.json", progress)
    summary = summary_of(facts, records)
    write_json(directory.path / "metrics.json", _metrics(directory, facts, summary, status))
    return summary


def _metrics(
    directory: RunDirectory, facts: RunFacts, summary: Summary, status: str
) -> dict[str, Any]:
    now = datetime.now(UTC)
    completed = now.isoformat() if status == "finished" else None
    before = read_json(directory.path / "metrics.json") or {}
    # A finished run that is only looked at again keeps the time of its end.
    if completed and before.get("summary", {}).get("total_samples") == summary.total_samples:
        completed = before.get("eval_run", {}).get("completed_at") or completed
    ended = datetime.fromisoformat(completed) if completed else now
    started = datetime.fromisoformat(facts.started_at)
    eval_run = {
        "id": facts.local_run_id,
        "status": status,
        "name": facts.name,
        "dataset_name": facts.dataset,
        "model_name": facts.model,
        "rollout_name": facts.rollout,
        "duration_ms": max(0.0, (ended - started).total_seconds() * 1000),
        "started_at": facts.started_at,
        "completed_at": completed,
    }
    return metrics_file(summary, eval_run=eval_run)


def _index_line(directory: RunDirectory, record: JournalRecord, *, resumed: bool) -> bytes:
    trial = directory.trial(record.rollout_id)
    place = f"row_{record.row_index}_run_{record.run_index}"
    has_trajectory = _copy_file(trial / TRAJECTORY, directory.path / f"trajectories/{place}.json")
    _copy_artifacts(trial / "artifacts", directory.path / "artifacts" / place)
    row: dict[str, Any] = {
        "row_index": record.row_index,
        "run_index": record.run_index,
        "rollout_id": record.rollout_id,
        "trajectory_filename": TRAJECTORY if has_trajectory else None,
        "status": record.status,
        "reward": record.reward,
        "tokens": record.tokens,
        "duration_ms": record.duration_ms,
        "error_type": record.error_type,
        "resumed": True if resumed else None,
    }
    known = {key: value for key, value in row.items() if value is not None}
    return orjson.dumps(known, option=orjson.OPT_APPEND_NEWLINE)


def _copy_artifacts(source: Path, target: Path) -> None:
    if not source.is_dir():
        return
    for folder, _, files in os.walk(source):
        for name in files:
            path = Path(folder) / name
            _copy_file(path, target / path.relative_to(source))


def _copy_file(source: Path, target: Path) -> bool:
    """Put a copy of ``source`` at ``target``; False when there is nothing to copy.

    A second name for the same bytes where the file system has that: samples are never changed.
    """
    try:
        here = source.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        there = target.stat()
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
    else:
        if (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev):
            return True
        target.unlink()
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)
    return True
