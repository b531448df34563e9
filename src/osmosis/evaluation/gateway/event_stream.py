"""Server-sent events towards the client: committed late, kept alive, ended properly."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from aiohttp import web

from osmosis.evaluation.gateway.json_codec import dumps

HEARTBEAT_S = 15.0
DONE = b"data: [DONE]\n\n"
HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


class ClientGone(Exception):
    """The client closed its end while the answer was on its way."""


class EventStream:
    """One streamed answer.

    The status line is held back until the provider answers, so that an early failure keeps its
    own status; after ``HEARTBEAT_S`` of silence it is sent anyway, followed by ``heartbeat``.
    """

    heartbeat = b": ping\n\n"

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._lock = asyncio.Lock()
        self._written_at = 0.0
        self._between_events = True
        self._pulse: asyncio.Task[None] | None = None
        self.response: web.StreamResponse | None = None

    @property
    def committed(self) -> bool:
        return self.response is not None

    async def __aenter__(self) -> EventStream:
        loop = asyncio.get_running_loop()
        self._written_at = loop.time()
        self._pulse = loop.create_task(self._keep_alive())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pulse is not None:
            self._pulse.cancel()

    async def commit(self) -> web.StreamResponse:
        """Send the status and headers, once."""
        if self.response is not None:
            return self.response
        async with self._lock:
            if self.response is None:
                response = web.StreamResponse(headers=HEADERS)
                try:
                    await response.prepare(self._request)
                except ConnectionError:
                    raise ClientGone from None
                self.response = response
            return self.response

    async def send(self, data: bytes) -> None:
        """Send raw event bytes (whole lines)."""
        response = self.response or await self.commit()
        self._between_events = data.endswith(b"\n\n")
        self._written_at = asyncio.get_running_loop().time()
        try:
            await response.write(data)
        except ConnectionError:
            raise ClientGone from None

    async def send_error(self, body: Mapping[str, Any]) -> None:
        """An error after the status line: the event that clients look for, and the end."""
        start = b"" if self._between_events else b"\n"
        await self.send(start + b"event: error\ndata: " + dumps(body) + b"\n\n" + DONE)

    async def finish(self) -> web.StreamResponse:
        response = await self.commit()
        try:
            await response.write_eof()
        except ConnectionError:
            raise ClientGone from None
        return response

    async def _keep_alive(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            idle_s = loop.time() - self._written_at
            if idle_s < HEARTBEAT_S or not self._between_events:
                await asyncio.sleep(max(0.01, HEARTBEAT_S - idle_s))
                continue
            try:
                await EventStream.send(self, self.heartbeat)
            except (ClientGone, RuntimeError):
                return  # the client is gone; the call itself is cancelled by the server
