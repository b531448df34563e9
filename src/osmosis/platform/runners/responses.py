"""The response caches of the workspaces, as their workers use them: one file for each workspace."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections import OrderedDict
from pathlib import Path

from osmosis.platform.platform import Platform
from osmosis.platform.runners.leases import leased_run
from osmosis.platform.settings import Settings
from osmosis.response_store import Held, LruStore
from osmosis.wire.errors import OsmosisError, ValidationFailed

KEY = re.compile(r"[0-9a-f]{40}")
MAX_RESPONSE_BYTES = 8 * 1024 * 1024
OPEN_STORES = 16
LEASE_KNOWN_S = 30.0
"""How long a lease is taken for good here: a run's own workspace is all that it opens."""
LEASES_KNOWN = 1024


class CacheFailed(OsmosisError):
    """The file cannot be read or written just now; a worker asks the model instead."""

    code, http_status = "CACHE_FAILED", 503

    def __init__(self, error: Exception) -> None:
        super().__init__(f"The workspace's response cache cannot be used: {error}.")


class ResponseStores:
    """Gives each run the store of its workspace, and no other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: OrderedDict[str, LruStore] = OrderedDict()
        self._leases: OrderedDict[tuple[str, str | None], tuple[str, float]] = OrderedDict()

    async def get(
        self, platform: Platform, run_id: str, lease: str | None, key: str
    ) -> bytes | None:
        store = await self._of_run(platform, run_id, lease, key)
        try:
            return await asyncio.to_thread(store.get, key)
        except sqlite3.Error as error:
            raise CacheFailed(error) from error

    async def put(
        self, platform: Platform, run_id: str, lease: str | None, key: str, value: bytes
    ) -> None:
        store = await self._of_run(platform, run_id, lease, key)
        try:
            await asyncio.to_thread(store.put, key, value)
        except sqlite3.Error as error:
            raise CacheFailed(error) from error

    async def clear(self, workspace_id: str) -> Held:
        """Forget what the workspace has; returns how much that was."""
        try:
            return await asyncio.to_thread(self.of(workspace_id).clear)
        except sqlite3.Error as error:
            raise CacheFailed(error) from error

    def of(self, workspace_id: str) -> LruStore:
        store = self._open.get(workspace_id)
        if store is None:
            path = response_store_path(self._settings, workspace_id)
            settings = self._settings
            store = LruStore(path, settings.response_cache_bytes, settings.response_cache_age_s)
            self._open[workspace_id] = store
        self._open.move_to_end(workspace_id)
        if len(self._open) > OPEN_STORES:
            self._open.popitem(last=False)[1].close()
        return store

    def close_all(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    async def _of_run(
        self, platform: Platform, run_id: str, lease: str | None, key: str
    ) -> LruStore:
        if KEY.fullmatch(key) is None:
            raise ValidationFailed("The key of a cached response is 40 hexadecimal digits.")
        workspace_id, known_until = self._leases.get((run_id, lease), ("", 0.0))
        now = time.monotonic()
        if now > known_until:
            async with platform.db.read() as session:
                workspace_id = (await leased_run(session, run_id, lease)).workspace_id
            self._leases[run_id, lease] = (workspace_id, now + LEASE_KNOWN_S)
            if len(self._leases) > LEASES_KNOWN:
                self._leases.popitem(last=False)
        return self.of(workspace_id)


def response_store_path(settings: Settings, workspace_id: str) -> Path:
    return settings.responses_dir / f"{workspace_id}.db"
