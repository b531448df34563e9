"""Answers of models by key, in one SQLite file of bounded size: the least recently used go first,
and what nobody asked for in a long time is forgotten.

The platform keeps one for each workspace, a local run one in its workspace directory. It knows
nothing of what it holds and needs only the standard library. It is a cache: what it cannot read it
forgets.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

BUSY_TIMEOUT_S = 5.0
MAX_AGE_S = 90 * 86_400.0
EVICTED_AT_ONCE = 64
ROOM_SHARE = 0.1
"""An eviction goes on until so much of the bound is free, so that not every put evicts."""
RECOUNT_EVERY_PUTS = 200
"""Other processes may put into the same file; the size is counted anew now and then."""
ROW_BYTES = 200
"""What a row takes beside its value: key, times, pages of the index."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, size INTEGER NOT NULL, used_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS responses_by_use ON responses (used_at);
"""

_HELD = "SELECT count(*), coalesce(sum(size), 0) FROM responses"


class Held(NamedTuple):
    """How much a store holds."""

    responses: int
    bytes: int


class LruStore:
    """One file. Safe to use from several threads and processes; every method blocks."""

    def __init__(self, path: Path, max_bytes: int, max_age_s: float = MAX_AGE_S) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._max_age_ns = int(max_age_s * 1e9)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._bytes = 0
        self._puts = 0

    def get(self, key: str) -> bytes | None:
        """The value, which is now the most recently used one; None when there is none."""
        with self._lock:
            database = self._opened()
            found = database.execute(
                "SELECT value FROM responses WHERE key = ? AND used_at >= ?", (key, self._oldest())
            ).fetchone()
            if found is None:
                return None
            database.execute(
                "UPDATE responses SET used_at = ? WHERE key = ?", (time.time_ns(), key)
            )
            return found[0]

    def put(self, key: str, value: bytes) -> None:
        """Keep ``value``, in place of an earlier one; values beyond the bound are not kept."""
        size = len(value) + ROW_BYTES
        if size > self.max_bytes:
            return
        with self._lock:
            database = self._opened()
            database.execute(
                "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?)",
                (key, value, size, time.time_ns()),
            )
            self._bytes += size
            self._puts += 1
            if self._bytes > self.max_bytes or self._puts % RECOUNT_EVERY_PUTS == 0:
                self._recount(database)
            if self._bytes > self.max_bytes:
                self._evict(database)

    def clear(self) -> Held:
        """Forget everything, and give the room back to the disk; returns what was forgotten."""
        with self._lock:
            database = self._opened()
            held = Held(*database.execute(_HELD).fetchone())
            database.execute("DELETE FROM responses")
            database.execute("VACUUM")
            self._bytes = 0
            return held

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _evict(self, database: sqlite3.Connection) -> None:
        while self._bytes > self.max_bytes * (1 - ROOM_SHARE):
            oldest = database.execute(
                "SELECT key, size FROM responses ORDER BY used_at LIMIT ?", (EVICTED_AT_ONCE,)
            ).fetchall()
            if not oldest:
                return
            for key, size in oldest:
                database.execute("DELETE FROM responses WHERE key = ?", (key,))
                self._bytes -= size
                if self._bytes <= self.max_bytes * (1 - ROOM_SHARE):
                    return

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                self._connection = _open(self.path)
            except sqlite3.DatabaseError:
                for name in (self.path.name, f"{self.path.name}-wal", f"{self.path.name}-shm"):
                    with suppress(FileNotFoundError):
                        self.path.with_name(name).unlink()
                self._connection = _open(self.path)
            self._recount(self._connection)
        return self._connection

    def _recount(self, database: sqlite3.Connection) -> None:
        database.execute("DELETE FROM responses WHERE used_at < ?", (self._oldest(),))
        self._bytes = _count(database)

    def _oldest(self) -> int:
        """What was used last before this moment is forgotten."""
        return time.time_ns() - self._max_age_ns


def _open(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600)
    database = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        database.execute("PRAGMA journal_mode = WAL")
        # A power cut may cost the last entries; nothing depends on them.
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(_SCHEMA)
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _count(database: sqlite3.Connection) -> int:
    return int(database.execute(_HELD).fetchone()[1])
