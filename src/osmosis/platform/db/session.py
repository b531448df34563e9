"""The one door to the database: many readers, one writer at a time.

SQLite in WAL mode lets readers go on while one transaction writes. ``write()`` queues writers in
this process on a lock, so that none of them waits inside SQLite. Nothing may await the network or
a subprocess between entering and leaving ``write()``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

BUSY_TIMEOUT_MS = 30_000


class Database:
    """Sessions over one SQLAlchemy async engine."""

    def __init__(self, url: str) -> None:
        self.engine = create_async_engine(url)
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False, autoflush=False)
        self._writer = asyncio.Lock()
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine.sync_engine, "connect", _prepare_sqlite)
            event.listen(self.engine.sync_engine, "begin", _begin)

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncSession]:
        """A session for reading; whatever it changes is rolled back."""
        async with self._sessions() as session:
            yield session

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[AsyncSession]:
        """A session that commits when the block ends and rolls back when it raises."""
        async with self._writer, self._sessions() as session:
            await session.connection(execution_options={"osmosis_write": True})
            yield session
            await session.commit()

    async def close(self) -> None:
        await self.engine.dispose()


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        f"busy_timeout={BUSY_TIMEOUT_MS}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Any) -> None:
    # A write that starts as a read can fail to upgrade its lock; it takes the lock at once instead.
    write = connection.get_execution_options().get("osmosis_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
