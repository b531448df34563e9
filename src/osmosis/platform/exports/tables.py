"""One row for each sample, as JSONL and as CSV."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import orjson

from osmosis.platform.exports.stored import StoredRun, StoredSample

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

_RECORD_FIELDS = {
    "error_kind": "string",
    "error_message": "string",
    "prompt_tokens": "int64",
    "completion_tokens": "int64",
    "judge_tokens": "int64",
    "judge_cost_usd": "float64",
    "queue_ms": "float64",
    "started_at": "float64",
    "finished_at": "float64",
    "tries": "int64",
}
COLUMNS = {
    "row_index": "int64",
    "run_index": "int64",
    "source_row": "int64",
    "rollout_id": "string",
    "status": "string",
    "reward": "float64",
    "passed": "bool_",
    "error_type": "string",
    "tokens": "int64",
    "cost_usd": "float64",
    "duration_ms": "float64",
    **_RECORD_FIELDS,
}
"""The columns of every table, with their Arrow types; custom metrics come after them."""


def flat(sample: StoredSample) -> dict[str, Any]:
    """A sample's columns; unknown values are None."""
    own = {name: getattr(sample, name) for name in COLUMNS if name not in _RECORD_FIELDS}
    return {**own, **{name: sample.record.get(name) for name in _RECORD_FIELDS}}


def write_jsonl(run: StoredRun, path: Path) -> None:
    """A line for each sample with metrics, model calls and trajectory; absent values left out."""
    with path.open("wb") as out:
        for sample in run.samples():
            row = {key: value for key, value in flat(sample).items() if value is not None}
            row["metrics"] = sample.record.get("metrics") or {}
            row["calls"] = sample.calls()
            document = sample.trajectory_json()
            if document is not None:
                row["trajectory"] = orjson.Fragment(document)
            out.write(orjson.dumps(row) + b"\n")


def write_csv(run: StoredRun, path: Path) -> None:
    """The columns and a ``metrics.NAME`` for each custom metric of the run; no trajectories."""
    metrics = sorted(run.summary.metrics)
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow([*COLUMNS, *(f"metrics.{name}" for name in metrics)])
        for sample in run.samples():
            values = sample.record.get("metrics") or {}
            row = [*flat(sample).values(), *(values.get(name) for name in metrics)]
            writer.writerow(map(_cell, row))


def _cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: what programs wrote may begin like one."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return "'" + value
    return value
