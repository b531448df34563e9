"""One shape for a page of a list and one for a page of a log (platform-api.md §3.0)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Query
from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.wire.errors import ValidationFailed

MAX_PAGE = 50
MAX_LOG_PAGE = 200


@dataclass(frozen=True)
class Page:
    """The part of a list that a client asks for."""

    limit: int = MAX_PAGE
    offset: int = 0

    def body(
        self, key: str, items: Sequence[Any], total_count: int, **extra: Any
    ) -> dict[str, Any]:
        """The page object, its items under ``key``."""
        reached = self.offset + len(items)
        more = bool(items) and reached < total_count
        return {
            key: list(items),
            "total_count": total_count,
            "has_more": more,
            "next_offset": reached if more else None,
            **extra,
        }


async def page_query(
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = MAX_PAGE,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> Page:
    return Page(limit, offset)


PageQuery = Annotated[Page, Depends(page_query)]
"""``?limit&offset`` of a list, as a route's parameter."""


async def fetch_page(
    session: AsyncSession, query: Select[Any], page: Page
) -> tuple[Sequence[Any], int]:
    """The page's rows (first column of ``query``) and how many there are in all."""
    counted = select(func.count()).select_from(query.order_by(None).subquery())
    total = (await session.execute(counted)).scalar_one()
    found = await session.execute(query.limit(page.limit).offset(page.offset))
    return found.scalars().all(), total


@dataclass(frozen=True)
class LogPage:
    """The part of a log that a client asks for. ``before`` and ``after`` are entry ids."""

    limit: int = MAX_PAGE
    direction: Literal["older", "newer"] = "older"
    cursor: int | None = None


async def log_query(
    limit: Annotated[int, Query(ge=1, le=MAX_LOG_PAGE)] = MAX_PAGE,
    direction: Literal["older", "newer"] = "older",
    cursor: str | None = None,
) -> LogPage:
    return LogPage(limit, direction, decode_cursor(cursor) if cursor else None)


LogQuery = Annotated[LogPage, Depends(log_query)]
"""``?limit&direction&cursor`` of a log, as a route's parameter."""


async def fetch_log_page(
    session: AsyncSession,
    model: Any,
    where: Any,
    page: LogPage,
    render: Callable[[Any], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """A page of a log table (columns id, timestamp, level, step, message, details).

    Entries inside a page are oldest first. ``older`` walks back from the newest entry, and its
    ``next_cursor`` is None at the log's begin. ``newer`` follows a growing log: its
    ``next_cursor`` always continues after the last entry seen, also when nothing was new.
    """
    query = select(model).where(where).limit(page.limit + 1)
    if page.direction == "older":
        if page.cursor is not None:
            query = query.where(model.id < page.cursor)
        rows = list((await session.execute(query.order_by(model.id.desc()))).scalars())
        more = len(rows) > page.limit
        rows = rows[: page.limit][::-1]
        following = encode_cursor(rows[0].id) if more else None
    else:
        if page.cursor is not None:
            query = query.where(model.id > page.cursor)
        rows = list((await session.execute(query.order_by(model.id))).scalars())[: page.limit]
        last = rows[-1].id if rows else page.cursor
        following = encode_cursor(last or 0)
    return {"logs": [(render or log_entry)(row) for row in rows], "next_cursor": following}


def log_entry(row: Any) -> dict[str, Any]:
    """One entry of a log on the wire."""
    return {
        "timestamp": iso(row.timestamp),
        "level": row.level,
        "step": row.step,
        "message": row.message,
        "details": row.details,
    }


def encode_cursor(entry_id: int) -> str:
    return base64.urlsafe_b64encode(str(entry_id).encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> int:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.urlsafe_b64decode(padded.encode()).decode()
        if not text.isdecimal() or len(text) > 18:
            raise ValueError
        return int(text)
    except (binascii.Error, ValueError):
        raise ValidationFailed(
            "The cursor is not one of ours; leave it out to start at the newest entries.",
            field="cursor",
        ) from None


def iso(value: datetime) -> str:
    """A time on the wire: ISO 8601 with its zone."""
    return value.isoformat().replace("+00:00", "Z")


def iso_or_none(value: datetime | None) -> str | None:
    return iso(value) if value else None
