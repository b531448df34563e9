"""One keep-alive HTTP/1.1 connection, for one request at a time.

A sample is a handful of small requests between the engine and the rollout process, all on
loopback; a whole client library costs five times the processor time of this, and its import as
much as fifty samples.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import httptools

MAX_ANSWER_BYTES = 128 * 1024 * 1024
MAX_ERROR_CHARS = 2000
UNFRAMED_STATUSES = frozenset({204, 304})


@dataclass(slots=True, frozen=True)
class Answer:
    """An HTTP answer, read whole."""

    status: int
    body: bytes
    retry_after: str | None = None

    def text(self) -> str:
        return self.body[:MAX_ERROR_CHARS].decode("utf-8", "replace").strip()


class HttpConnection(asyncio.Protocol):
    """Made by ``loop.create_connection``. ``usable`` until something ends it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._parser: Any = None
        self._reset()
        self.usable = False
        self.idle_since = 0.0

    async def exchange(self, request: bytes) -> Answer:
        """Send a whole request, return the whole answer; OSError when the link breaks."""
        if not self.usable or self._transport is None:
            raise ConnectionResetError("the connection is closed")
        self._reset()
        self._parser = httptools.HttpResponseParser(self)
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._answer
        except BaseException:
            # Whatever is still to come would answer the next request.
            self.abort(ConnectionResetError("the exchange was given up"))
            raise
        finally:
            self._answer = None

    def abort(self, reason: Exception) -> None:
        """End the connection; an exchange in progress raises ``reason``."""
        self.usable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(reason)
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a TCP transport is a Transport
        self.usable = True

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.abort(ConnectionResetError("the server spoke without being asked"))
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.abort(ConnectionResetError(f"the answer is not HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        if self._answer is None or self._answer.done():
            return
        if self._headers_complete and not self._framed and exc is None:
            self._finish()
        else:
            self._answer.set_exception(exc or ConnectionResetError("the server hung up"))

    # --- httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        if lowered == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif lowered in (b"content-length", b"transfer-encoding"):
            self._framed = True

    def on_headers_complete(self) -> None:
        self._headers_complete = True
        self._framed = self._framed or self._parser.get_status_code() in UNFRAMED_STATUSES

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._size += len(body)
        if self._size > MAX_ANSWER_BYTES:
            self.abort(ConnectionResetError(f"the answer is over {MAX_ANSWER_BYTES} bytes"))

    def on_message_complete(self) -> None:
        if not self._parser.should_keep_alive():
            self.usable = False
        self._finish()

    def _finish(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(
                Answer(self._parser.get_status_code(), b"".join(self._body), self._retry_after)
            )

    def _reset(self) -> None:
        self._body: list[bytes] = []
        self._size = 0
        self._retry_after: str | None = None
        self._framed = False
        self._headers_complete = False
