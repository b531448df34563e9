"""A run as an export reads it: its document, its numbers, and its samples as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection, select

from osmosis.metrics.documents import load_summary
from osmosis.metrics.summary import Summary
from osmosis.platform.db.models import Sample
from osmosis.platform.segments import Entry, Place

BATCH = 500
_COLUMNS = (
    Sample.row_index,
    Sample.run_index,
    Sample.source_row,
    Sample.rollout_id,
    Sample.status,
    Sample.reward,
    Sample.passed,
    Sample.error_type,
    Sample.tokens,
    Sample.cost_usd,
    Sample.duration_ms,
    Sample.record,
    Sample.segment,
    Sample.offset,
    Sample.length,
)


@dataclass(frozen=True)
class StoredSample:
    """One sample. ``record`` holds what has no attribute here (times, metrics, messages)."""

    row_index: int
    run_index: int
    source_row: int
    rollout_id: str
    status: str
    reward: float | None
    passed: bool | None
    error_type: str | None
    tokens: int | None
    cost_usd: float | None
    duration_ms: float
    record: Mapping[str, Any]
    entry: Entry | None

    def trajectory_json(self) -> bytes | None:
        """The ATIF document, as the bytes that a download gives; None without one."""
        if self.entry is None or self.entry.document is None:
            return None
        return b"".join(self.entry.read_document())

    def trajectory(self) -> dict[str, Any] | None:
        """The ATIF document."""
        text = self.trajectory_json()
        return None if text is None else orjson.loads(text)

    def calls(self) -> list[dict[str, Any]]:
        """The model calls."""
        return [] if self.entry is None else self.entry.read_items("calls", 0, 1 << 31)


@dataclass
class StoredRun:
    """A run: ``document`` is its detail as the API gives it, samples are read as they are asked
    for and never held. ``samples_read`` counts them."""

    document: Mapping[str, Any]
    summary: Summary
    connection: Connection
    segments: Path
    samples_read: int = 0

    @property
    def id(self) -> str:
        return str(self.document["eval_run"]["id"])

    @property
    def name(self) -> str:
        return str(self.document["eval_run"]["name"])

    @property
    def n(self) -> int:
        return int(self.document["config"]["n"])

    def name_of(self, key: str) -> str:
        """The name of the run's ``rollout`` or ``dataset``."""
        return str(self.document[key]["name"])

    @property
    def model(self) -> str:
        return str(self.document["config"]["model_path"])

    def samples(self) -> Iterator[StoredSample]:
        """The recorded samples by row and run, as they are while they are read."""
        row, run = 0, -1
        while True:
            query = (
                select(*_COLUMNS)
                .where(Sample.run_id == self.id, Sample.row_index >= row)
                .where((Sample.row_index > row) | (Sample.run_index > run))
                .order_by(Sample.row_index, Sample.run_index)
                .limit(BATCH)
            )
            found = self.connection.execute(query).all()
            # No transaction stays open meanwhile: one would keep the log of SQLite from shrinking.
            self.connection.rollback()
            for sample in found:
                self.samples_read += 1
                yield self._sample(sample)
            if len(found) < BATCH:
                return
            row, run = found[-1].row_index, found[-1].run_index

    def _sample(self, row: Any) -> StoredSample:
        *values, segment, offset, length = row
        place = None if segment is None else Place(segment, offset, length)
        return StoredSample(*values, entry=Entry(self.segments, place) if place else None)


def stored_run(request: Mapping[str, Any], connection: Connection) -> StoredRun:
    """The run that a job's request names."""
    summary = load_summary(request["summary"])
    if summary is None:
        raise ValueError("The summary of the request follows other definitions.")
    return StoredRun(request["run"], summary, connection, Path(request["segments"]))
