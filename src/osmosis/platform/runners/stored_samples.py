"""A stored sample as the record that it came as, for a worker that grades it again."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import orjson

from osmosis.platform.db.models import Sample
from osmosis.platform.evals.places import entry_of
from osmosis.platform.segments import Entry
from osmosis.platform.settings import Settings
from osmosis.wire.samples import SampleRecord


async def stored_record(settings: Settings, sample: Sample) -> SampleRecord:
    """Everything that was recorded of ``sample``."""
    entry = entry_of(settings, sample)
    bulk = {} if entry is None else await asyncio.to_thread(_bulk, entry)
    columns = {name: getattr(sample, name) for name in _COLUMNS}
    rest = {name: sample.record[name] for name in _IN_RECORD if name in sample.record}
    return SampleRecord.model_validate({**rest, **columns, **bulk})


_COLUMNS = (
    "row_index",
    "run_index",
    "source_row",
    "rollout_id",
    "status",
    "reward",
    "error_type",
    "tokens",
    "cost_usd",
    "duration_ms",
)
_BULK = frozenset({"calls", "kept_calls", "trajectory", "messages", "output"})
_IN_RECORD = SampleRecord.model_fields.keys() - set(_COLUMNS) - _BULK


def _bulk(entry: Entry) -> dict[str, Any]:
    document = b"".join(entry.read_document())
    kept = entry.read_kept_calls()
    return {
        "trajectory": orjson.loads(document) if document else None,
        "calls": entry.read_items("calls", 0, entry.count("calls")),
        "messages": entry.read_items("messages", 0, entry.count("messages")) or None,
        "kept_calls": base64.b64encode(kept).decode() if kept else None,
        "output": entry.read_output(),
    }
