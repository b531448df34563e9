"""The response cache of local runs: one file in the workspace directory, for all runs there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from osmosis.response_store import LruStore

MAX_BYTES = 1024 * 1024 * 1024
FILE = Path(".osmosis") / "responses" / "responses.db"


class LocalResponseStore:
    """A ``ResponseStore`` on this machine's disk."""

    def __init__(self, root: Path) -> None:
        self._store = LruStore(root / FILE, MAX_BYTES)

    async def lookup(self, key: str) -> bytes | None:
        return await asyncio.to_thread(self._store.get, key)

    async def put(self, key: str, value: bytes) -> None:
        await asyncio.to_thread(self._store.put, key, value)

    def close(self) -> None:
        self._store.close()
