"""The response cache of a claimed run: the workspace's own, on the platform."""

from __future__ import annotations

from osmosis.worker.client import RunClient

TIMEOUT_S = 5.0
"""A model is asked rather than a slow cache waited for."""


class HttpResponseStore:
    """A ``ResponseStore`` over the runner API."""

    def __init__(self, run: RunClient) -> None:
        self._run = run

    async def lookup(self, key: str) -> bytes | None:
        return await self._run.cached_response(key, timeout_s=TIMEOUT_S)

    async def put(self, key: str, value: bytes) -> None:
        await self._run.cache_response(key, value, timeout_s=TIMEOUT_S)
