"""The failed samples of a local run, with what each said."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path

from osmosis.evaluation.journal import JournalRecord, Key
from osmosis.evaluation.local.run_directory import RunDirectory, read_json
from osmosis.wire.errors import OsmosisError

MAX_SHOWN = 100


@dataclass(frozen=True)
class FailedSample:
    """``directory`` holds all that is known of it; ``message`` is from there."""

    record: JournalRecord
    directory: Path
    message: str | None


def first_failures(
    directory: RunDirectory, records: Mapping[Key, JournalRecord]
) -> list[FailedSample]:
    """The first :data:`MAX_SHOWN` by row and run."""
    keys = (key for key, record in records.items() if record.status == "failed")
    return [_failed(directory, records[key]) for key in nsmallest(MAX_SHOWN, keys)]


def _failed(directory: RunDirectory, record: JournalRecord) -> FailedSample:
    trial = directory.trial(record.rollout_id)
    known = None
    with contextlib.suppress(OsmosisError):  # the result counts, also when its story is lost
        known = read_json(trial / "diagnostics.json")
    message = (known or {}).get("error_message")
    return FailedSample(record, trial, message if isinstance(message, str) else None)
