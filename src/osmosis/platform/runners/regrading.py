"""Taking in new grades: each replaces the stored sample that it is of, once per generation.

A run that is graded again (``Run.regrade``) keeps every sample until its new grade arrives; so a
worker that is lost in between loses nothing, and the next one goes on with those that still have
their old grade.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, delete, or_, select, tuple_

from osmosis.platform.db.models import Run, Sample
from osmosis.platform.evals.counters import counted_again
from osmosis.platform.evals.tallies import drop_tally
from osmosis.platform.platform import Platform

BATCH = 10_000

Key = tuple[int, int]


def regradable(generation: int) -> Any:
    """The condition of a sample that is graded again and was not yet in this generation."""
    graded_in = Sample.record[("regraded", "generation")].as_integer()
    return Sample.record["trajectory_bytes"].as_integer().is_not(None) & or_(
        graded_in.is_(None), graded_in != generation
    )


def mark(rows: Sequence[dict[str, Any]], run: Any) -> None:
    """Say in rows that are about to be inserted which grading they are of."""
    for row in rows:
        row["record"]["regraded"] = {
            "generation": run.generation,
            "commit_sha": run.regrade["commit_sha"],
        }


def take_out(
    connection: Connection, run_id: str, run: Any, keys: Sequence[Key]
) -> dict[str, float]:
    """Take out the samples that new grades replace; what they had counted for.

    Those that were graded in this generation already stay: a repeated record changes nothing.
    """
    replaced = (
        (Sample.run_id == run_id)
        & tuple_(Sample.row_index, Sample.run_index).in_(keys)
        & regradable(run.generation)
    )
    counted = counted_again(connection, run_id, run.pass_threshold, only=replaced)
    connection.execute(delete(Sample).where(replaced))
    drop_tally(connection, run_id)
    return counted


async def keys_to_leave(platform: Platform, run: Run) -> AsyncIterator[bytes]:
    """NDJSON of the [row_index, run_index] that a worker must not grade, in order: all places of
    the run but those of :func:`regradable` samples."""
    place, end = 0, run.selected_rows * run.n
    while place < end:
        keys = await _next_keys(platform, run, place)
        lines: list[bytes] = []
        for row_index, run_index in keys:
            number = row_index * run.n + run_index
            lines += _lines(place, number, run.n)
            place = number + 1
        if len(keys) < BATCH:
            lines += _lines(place, end, run.n)
            place = end
        yield b"".join(lines)


async def _next_keys(platform: Platform, run: Run, place: int) -> Sequence[Any]:
    row, index = divmod(place, run.n)
    query = (
        select(Sample.row_index, Sample.run_index)
        .where(Sample.run_id == run.id, Sample.row_index >= row)
        .where((Sample.row_index > row) | (Sample.run_index >= index))
        .where(regradable(run.generation))
        .order_by(Sample.row_index, Sample.run_index)
        .limit(BATCH)
    )
    async with platform.db.read() as session:
        return (await session.execute(query)).all()


def _lines(start: int, end: int, n: int) -> list[bytes]:
    return [orjson.dumps(list(divmod(number, n))) + b"\n" for number in range(start, end)]
