"""A run's samples, page by page: filtered, ordered, and continued by the last key seen."""

from __future__ import annotations

import base64
import binascii
import heapq
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import Depends, Query
from sqlalchemy import Select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.dataset.selection import merged_ranges
from osmosis.platform.db.models import Run, Sample
from osmosis.platform.evals import sample_walks
from osmosis.platform.evals.sample_walks import Place
from osmosis.wire.errors import ValidationFailed

MAX_SAMPLES = 500
DEFAULT_SAMPLES = 50
MAX_RANGES = 200
_CURSOR = struct.Struct(">dQQ")

Order = Literal["row", "reward"]


@dataclass(frozen=True)
class SamplePage:
    """The part of a run's samples that a client asks for.

    ``passed`` False are those that were to pass and did not: below the threshold, or broken; a
    skipped sample is neither. ``order`` ``reward`` gives graded samples only, the worst first.
    """

    limit: int = DEFAULT_SAMPLES
    after: Place | None = None
    status: str | None = None
    passed: bool | None = None
    error: str | None = None
    rows: str | None = None
    order: Order = "row"

    def query(self, cursor: str | None = None) -> str:
        """This page's filters as a query string, continued at ``cursor``."""
        given = {
            "status": self.status,
            "passed": None if self.passed is None else str(self.passed).lower(),
            "error": self.error,
            "rows": self.rows,
            "order": self.order if self.order != "row" else None,
            "cursor": cursor,
        }
        return urlencode({key: value for key, value in given.items() if value is not None})

    @property
    def filtered(self) -> bool:
        """Whether it leaves samples out."""
        return replace(self, limit=DEFAULT_SAMPLES, after=None) != SamplePage()


async def sample_query(
    *,
    limit: Annotated[int, Query(ge=1, le=MAX_SAMPLES)] = DEFAULT_SAMPLES,
    cursor: str | None = None,
    status: Literal["success", "failed", "skipped"] | None = None,
    passed: bool | None = None,
    error: Annotated[str | None, Query(max_length=200)] = None,
    rows: Annotated[str | None, Query(max_length=4000)] = None,
    order: Order = "row",
) -> SamplePage:
    after = decode_place(cursor) if cursor else None
    return SamplePage(limit, after, status, passed, error, rows, order)


SampleQuery = Annotated[SamplePage, Depends(sample_query)]
"""``?limit&cursor&status&passed&error&rows&order`` of a run's samples, as a route's parameter."""


async def page_of_samples(
    session: AsyncSession, run: Run, page: SamplePage
) -> tuple[Sequence[Sample], str | None]:
    """A page of samples, and the cursor of the next one; None at the end."""
    lanes = [await _samples_of(session, lane, page.limit + 1) for lane in lanes_of(run, page)]
    place_of = sample_walks.by_row if page.order == "row" else sample_walks.by_reward
    found = list(islice(heapq.merge(*lanes, key=place_of), page.limit + 1))
    if len(found) <= page.limit:
        return found, None
    last = found[page.limit - 1]
    return found[: page.limit], encode_place(
        Place(last.reward or 0.0, last.row_index, last.run_index)
    )


def lanes_of(run: Run, page: SamplePage) -> list[Iterator[Select[Sample]]]:
    """The queries of a page, lane by lane: see :mod:`osmosis.platform.evals.sample_walks`."""
    given = sample_walks.Filters(page.status, page.passed, page.error, _ranges(page.rows))
    lanes = sample_walks.by_rows if page.order == "row" else sample_walks.by_rewards
    return lanes(run, given, page.after)


async def _samples_of(
    session: AsyncSession, lane: Iterator[Select[Sample]], wanted: int
) -> list[Sample]:
    """The first samples of a lane, of one query after the other until there are enough."""
    found: list[Sample] = []
    for query in lane:
        found += (await session.execute(query.limit(wanted - len(found)))).scalars()
        if len(found) >= wanted:
            break
    return found


def _ranges(rows: str | None) -> list[range] | None:
    if rows is None:
        return None
    ranges = merged_ranges(rows)
    if len(ranges) > MAX_RANGES:
        raise ValidationFailed(
            f"'{rows[:80]}' names {len(ranges)} ranges of rows; at most {MAX_RANGES} are taken.",
            field="rows",
        )
    return ranges


def encode_place(place: Place) -> str:
    """A place as a cursor: opaque, and exact for every reward."""
    return base64.urlsafe_b64encode(_CURSOR.pack(*place)).decode().rstrip("=")


def decode_place(cursor: str) -> Place:
    """The place of a cursor of ours; anything else is refused."""
    try:
        packed = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
        place = Place(*_CURSOR.unpack(packed))
        if place.row_index >= 2**31 or place.run_index >= 2**31:
            raise ValueError
    except (binascii.Error, struct.error, ValueError):
        raise ValidationFailed(
            "The cursor is not one of ours; leave it out to start at the first sample.",
            field="cursor",
        ) from None
    return place
