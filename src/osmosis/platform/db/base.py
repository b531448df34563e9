"""What every table shares: the declarative base, ids and times."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime, timedelta

from sqlalchemy import DateTime, MetaData
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


def new_id() -> str:
    """A fresh public id: 32 lower-case hex characters."""
    return secrets.token_hex(16)


def utc_now() -> datetime:
    return datetime.now(UTC)


class SteadyClock:
    """UTC as it was when the process started, moved on by a clock that nobody sets."""

    def __init__(self) -> None:
        self._started_at = utc_now()
        self._started_s = time.monotonic()

    def now(self) -> datetime:
        return self._started_at + timedelta(seconds=time.monotonic() - self._started_s)


steady_now = SteadyClock().now
"""The clock of leases: a step of the machine's clock neither ends them nor keeps them alive."""


class UtcDateTime(TypeDecorator[datetime]):
    """A zoned UTC time on every backend; SQLite itself would forget the zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: object) -> datetime | None:
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: datetime | None, dialect: object) -> datetime | None:
        if value is None:
            return None
        return value if value.tzinfo else value.replace(tzinfo=UTC)


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


class Identified:
    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)


class Timestamped:
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now, onupdate=utc_now)
