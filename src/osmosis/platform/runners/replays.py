"""The kept calls of a run, for the worker of another run of the workspace that replays it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson
from sqlalchemy import select

from osmosis.platform.db.models import Run, Sample
from osmosis.platform.evals.places import entry_of
from osmosis.platform.platform import Platform
from osmosis.platform.runners.leases import leased_run
from osmosis.platform.segments import SegmentCorrupt
from osmosis.wire.errors import NotFound
from osmosis.wire.runner import ReplayedRun

BATCH = 200


async def check_replayed(
    platform: Platform, run_id: str, lease_token: str | None, replayed_id: str
) -> None:
    """Whether the leased run may have the calls of the other one, which must still be there."""
    async with platform.db.read() as session:
        run = await leased_run(session, run_id, lease_token)
        known = [item for item in replays_of(run) if item.run_id == replayed_id]
        other = await session.get(Run, replayed_id) if known else None
        if other is None or other.deleted_at or other.workspace_id != run.workspace_id:
            name = f" '{known[0].run_name}'" if known else ""
            raise NotFound(
                f"The run{name} that is to be replayed was deleted, and its calls with it.",
                hint="Submit again, with another model_path.",
            )


def replays_of(run: Run) -> list[ReplayedRun]:
    """The runs that the run replays, as they were found at its submit."""
    found: list[dict[str, Any]] = run.config.get("replays", [])
    return [ReplayedRun.model_validate(item) for item in found]


async def kept_calls(platform: Platform, run_id: str) -> AsyncIterator[bytes]:
    """NDJSON of [source_row, run_index, kept calls in base64]; no transaction is held between."""
    last = 0
    while True:
        query = (
            select(Sample).where(Sample.run_id == run_id, Sample.id > last).order_by(Sample.id)
        ).limit(BATCH)
        async with platform.db.read() as session:
            samples = (await session.execute(query)).scalars().all()
        if not samples:
            return
        last = samples[-1].id
        yield await asyncio.to_thread(_lines, platform, samples)


def _lines(platform: Platform, samples: Sequence[Sample]) -> bytes:
    lines: list[bytes] = []
    for sample in samples:
        entry = entry_of(platform.settings, sample) if sample.record.get("kept_calls") else None
        try:
            packed = entry.read_kept_calls() if entry else None
        except (SegmentCorrupt, OSError):
            continue  # A sample whose calls cannot be read is one without calls.
        if packed:
            text = base64.b64encode(packed).decode()
            lines.append(orjson.dumps([sample.source_row, sample.run_index, text]) + b"\n")
    return b"".join(lines)
