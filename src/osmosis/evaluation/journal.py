"""The journal of a local run: one line per finished sample, on disk before anybody hears of it.

The last line of a (row, run) counts; nothing else says what is done. A crash can only tear the
last line, so a torn end is cut off, and any other bad line is corruption that nobody may build on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import orjson

from osmosis.wire.errors import Conflict
from osmosis.wire.samples import SampleRecord

STATUSES = ("success", "failed", "skipped")

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """The terminal result of one sample; rollout-protocol.md §8 names the fields."""

    row_index: int
    run_index: int
    rollout_id: str
    status: str
    duration_ms: float
    source_row_index: int | None = None
    reward: float | None = None
    tokens: int | None = None
    error_type: str | None = None

    @property
    def key(self) -> Key:
        return self.row_index, self.run_index

    @classmethod
    def of(cls, record: SampleRecord) -> JournalRecord:
        return cls(
            row_index=record.row_index,
            run_index=record.run_index,
            rollout_id=record.rollout_id,
            status=record.status,
            duration_ms=record.duration_ms,
            source_row_index=record.source_row,
            reward=record.reward,
            tokens=record.tokens,
            error_type=record.error_type,
        )

    def line(self) -> bytes:
        values = {name: getattr(self, name) for name in _FIELDS}
        known = {name: value for name, value in values.items() if value is not None}
        return orjson.dumps(known, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


_FIELDS = tuple(JournalRecord.__dataclass_fields__)


class Journal:
    """Appends to the journal file. Only the holder of the run's lock may open it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = read_journal(path)
        """By (row, run), as they stood when the journal was opened."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _sync_directory(path.parent)

    def append(self, records: Iterable[JournalRecord]) -> None:
        """Write ``records``; they are on disk once this returns. Blocking."""
        size = os.fstat(self._file).st_size
        view = memoryview(b"".join(record.line() for record in records))
        try:
            while view:
                view = view[os.write(self._file, view) :]
            os.fsync(self._file)
        except OSError:
            # A full disk: half a line must not stay where the next one would follow it.
            os.ftruncate(self._file, size)
            raise

    def close(self) -> None:
        os.close(self._file)


def read_journal(path: Path) -> dict[Key, JournalRecord]:
    """What is recorded, the last line of each sample; a torn end of the file is cut off."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        os.truncate(path, whole)
    records: dict[Key, JournalRecord] = {}
    for number, line in enumerate(text[:whole].split(b"\n")[:-1], start=1):
        try:
            record = parse_line(line)
        except (ValueError, TypeError) as error:
            raise Conflict(
                f"{path}, line {number}, is damaged ({error}); the run cannot be resumed.",
                hint="Put the file back from a copy, or start over with --fresh.",
                details={"path": str(path), "line": number},
            ) from None
        records[record.key] = record
    return records


def parse_line(line: bytes) -> JournalRecord:
    """One line; ValueError says what is wrong with it."""
    values: Any = orjson.loads(line)
    if not isinstance(values, dict):
        raise ValueError("not a JSON object")
    if unknown := sorted(set(values) - set(_FIELDS)):
        raise ValueError(f"unknown key {unknown[0]!r}")
    if not all(_is_count(values.get(name)) for name in ("row_index", "run_index")):
        raise ValueError("row_index or run_index is no index")
    if not all(
        values.get(n) is None or _is_count(values[n]) for n in ("source_row_index", "tokens")
    ):
        raise ValueError("source_row_index or tokens is no count")
    if values.get("status") not in STATUSES or not isinstance(values.get("rollout_id"), str):
        raise ValueError("no known status or rollout_id")
    if not isinstance(values.get("error_type"), str | None):
        raise ValueError("error_type is no text")
    for value in (values.get("duration_ms"), values.get("reward", 0.0)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ValueError("duration_ms or reward is no finite number")
    return JournalRecord(**values)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
