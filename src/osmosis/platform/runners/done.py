"""Which samples of a run are recorded: what a worker that goes on must not run again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson
from sqlalchemy import select

from osmosis.platform.db.models import Sample
from osmosis.platform.platform import Platform

BATCH = 10_000


async def recorded_keys(platform: Platform, run_id: str) -> AsyncIterator[bytes]:
    """NDJSON of [row_index, run_index], by row and run, no transaction held in between."""
    row, run = 0, -1
    while True:
        query = (
            select(Sample.row_index, Sample.run_index)
            .where(Sample.run_id == run_id, Sample.row_index >= row)
            .where((Sample.row_index > row) | (Sample.run_index > run))
            .order_by(Sample.row_index, Sample.run_index)
            .limit(BATCH)
        )
        async with platform.db.read() as session:
            keys = (await session.execute(query)).all()
        if not keys:
            return
        row, run = keys[-1]
        yield b"".join(orjson.dumps([row_index, index]) + b"\n" for row_index, index in keys)
