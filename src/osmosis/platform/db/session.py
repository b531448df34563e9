"""The one door to the database: many readers, one writer at a time.

SQLite in WAL mode lets readers go on while one transaction writes. ``write()`` queues writers in
this process on a lock, so that none of them waits inside SQLite. Nothing may await the network or
a subprocess between entering and leaving ``write()``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, Engine, Executable, Row, create_engine, event
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session

BUSY_TIMEOUT_MS = 30_000

T = TypeVar("T")


class Database:
    """Sessions over one SQLAlchemy async engine."""

    def __init__(self, url: str) -> None:
        self.engine = create_async_engine(url)
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False, autoflush=False)
        self._writer = asyncio.Lock()
        self._direct: Engine | None = None
        if self.engine.dialect.name == "sqlite":
            self._direct = create_engine(
                make_url(url).set(drivername="sqlite"),
                json_serializer=_dump_json,
                json_deserializer=orjson.loads,
            )
            for engine in (self.engine.sync_engine, self._direct):
                engine.dialect.statement_compiler = _SQLiteCompiler
                event.listen(engine, "connect", _prepare_sqlite)
                event.listen(engine, "begin", _begin)

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

    async def look(self, work: Callable[[Session], T]) -> T:
        """The result of ``work``, which reads in one transaction: one thread hop for all of it.

        For what each request does. As with ``transact``, it may touch nothing but its session.
        """
        direct = self._direct
        if direct is not None:
            return await asyncio.to_thread(_look, direct, work)
        async with self._sessions() as session:
            return await session.run_sync(work)

    async def first(self, query: Executable) -> Row[Any] | None:
        """The first row of a query that only reads; None when it has none."""
        return await self.look(lambda session: session.execute(query).first())

    async def transact(self, work: Callable[[Connection], T]) -> T:
        """The result of ``work``, run as one write transaction that commits when it returns.

        For hot paths: aiosqlite takes four thread hops a statement, and this takes one for all.
        ``work`` runs in a thread on SQLite, so it may touch nothing but its connection.
        """
        direct = self._direct
        async with self._writer:
            if direct is not None:
                return await asyncio.to_thread(_transact, direct, work)
            async with self.engine.begin() as connection:
                return await connection.run_sync(work)

    async def examine(self, work: Callable[[Connection], T]) -> T:
        """The result of ``work``, which only reads, for what reads much.

        On SQLite it runs in a thread: neither the rows nor what is made of them pass through the
        event loop one by one.
        """
        direct = self._direct
        if direct is not None:
            return await asyncio.to_thread(_examine, direct, work)
        async with self.engine.connect() as connection:
            return await connection.run_sync(work)

    async def close(self) -> None:
        await self.engine.dispose()
        if self._direct is not None:
            self._direct.dispose()


class _SQLiteCompiler(SQLiteCompiler):
    """Writes the hints of a query, ``INDEXED BY``, which SQLAlchemy leaves out for SQLite."""

    def get_from_hint_text(self, table: Any, text: str | None) -> str | None:
        return text


def _look(engine: Engine, work: Callable[[Session], T]) -> T:
    with Session(engine, autoflush=False) as session:
        return work(session)


def _transact(engine: Engine, work: Callable[[Connection], T]) -> T:
    with (
        engine.connect().execution_options(osmosis_write=True) as connection,
        connection.begin(),
    ):
        return work(connection)


def _examine(engine: Engine, work: Callable[[Connection], T]) -> T:
    with engine.connect() as connection:
        return work(connection)


def _dump_json(value: Any) -> str:
    return orjson.dumps(value).decode()


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
