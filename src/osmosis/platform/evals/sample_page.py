"""A run's samples, page by page: filtered, ordered, and continued by the last key seen."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query
from sqlalchemy import ColumnElement, Select, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.dataset.selection import format_ranges, parse_ranges
from osmosis.platform.db.models import Sample
from osmosis.wire.errors import ValidationFailed

MAX_SAMPLES = 500
DEFAULT_SAMPLES = 50
MAX_RANGES = 200
_CURSOR = struct.Struct(">dQQ")

Order = Literal["row", "reward"]


class Place(NamedTuple):
    """Where a page ends: the order's own value first, then what makes it unique."""

    reward: float
    row_index: int
    run_index: int


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
    session: AsyncSession, run_id: str, page: SamplePage
) -> tuple[Sequence[Sample], str | None]:
    """A page of samples, and the cursor of the next one; None at the end."""
    found = (await session.execute(page_query(run_id, page))).scalars().all()
    if len(found) <= page.limit:
        return found, None
    last = found[page.limit - 1]
    return found[: page.limit], encode_place(
        Place(last.reward or 0.0, last.row_index, last.run_index)
    )


def page_query(run_id: str, page: SamplePage) -> Select[Sample]:
    """The query of a page, and of one sample more."""
    query = _ordered(_filtered(select(Sample).where(Sample.run_id == run_id), page), page)
    return query.limit(page.limit + 1)


def _filtered(query: Select[Sample], page: SamplePage) -> Select[Sample]:
    if page.status is not None:
        query = query.where(Sample.status == page.status)
    if page.passed is not None:
        query = query.where(Sample.passed == page.passed)
    if page.error is not None:
        query = query.where(Sample.error_type == page.error)
    if page.rows is not None:
        query = query.where(or_(*_ranges(page.rows)))
    return query


def _ranges(rows: str) -> list[ColumnElement[bool]]:
    """One condition for each range of consecutive rows."""
    ranges = format_ranges(parse_ranges(rows)).split(",")
    if len(ranges) > MAX_RANGES:
        raise ValidationFailed(
            f"'{rows[:80]}' names {len(ranges)} ranges of rows; at most {MAX_RANGES} are taken.",
            field="rows",
        )
    bounds = [part.partition("-") for part in ranges]
    return [Sample.row_index.between(int(low), int(high or low)) for low, _, high in bounds]


def _ordered(query: Select[Sample], page: SamplePage) -> Select[Sample]:
    # Comparisons are written out, because SQLite uses an index for them and not for a row value
    # comparison behind an equality.
    row, run = Sample.row_index, Sample.run_index
    after = page.after
    if page.order == "row":
        if after is not None:
            query = query.where(
                row >= after.row_index,
                or_(row > after.row_index, and_(row == after.row_index, run > after.run_index)),
            )
        return query.order_by(row, run)
    query = query.where(Sample.reward.is_not(None), Sample.status != "skipped")
    if after is not None:
        later = or_(row > after.row_index, and_(row == after.row_index, run > after.run_index))
        query = query.where(
            Sample.reward >= after.reward,
            or_(Sample.reward > after.reward, and_(Sample.reward == after.reward, later)),
        )
    return query.order_by(Sample.reward, row, run)


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
