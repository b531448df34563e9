"""Keep-alive connections to one address, as many as there are requests at once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from osmosis.rollout.http_connection import Answer, HttpConnection

KEEPALIVE_S = 3.0
"""Below the 5 s after which uvicorn closes an idle connection: no request on a dying one."""
CLOSED_A_TURN = 32
"""Closing a thousand in one turn of the loop holds everything else up, at both their ends."""

OpenSocket = Callable[[], Awaitable[socket.socket]]
"""Makes a TCP socket that is not connected yet and does not block."""


class ConnectionPool:
    """Whole requests to whole answers, until :meth:`close`.

    ``open_socket`` makes the sockets where those of this process do not get there.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        connect_timeout_s: float,
        open_socket: OpenSocket | None = None,
    ) -> None:
        self._host, self._port = host, port
        self._open_socket = open_socket
        self._connect_timeout_s = connect_timeout_s
        self._idle: list[HttpConnection] = []
        self._busy: set[HttpConnection] = set()
        self._closed: str | None = None

    async def exchange(self, request: bytes) -> Answer:
        """Send the bytes of a request; OSError or TimeoutError when the link breaks."""
        connection = self._idle_connection() or await self._connect()
        self._busy.add(connection)
        try:
            answer = await connection.exchange(request)
        finally:
            self._busy.discard(connection)
        if connection.usable and self._closed is None:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        return answer

    async def wind_down(self, reason: str) -> None:
        """Close the idle ones, a few in each turn of the loop, and then the pool."""
        while self._idle:
            for connection in self._idle[-CLOSED_A_TURN:]:
                connection.abort(ConnectionResetError(reason))
            del self._idle[-CLOSED_A_TURN:]
            await asyncio.sleep(0)
        self.close(reason)

    def close(self, reason: str) -> None:
        """Requests in flight, and any that come, raise ``reason`` at once. Idempotent."""
        if self._closed is not None:
            return
        self._closed = reason
        for connection in (*self._idle, *self._busy):
            connection.abort(ConnectionResetError(reason))
        self._idle.clear()

    def _idle_connection(self) -> HttpConnection | None:
        """The one used last, so that the surplus ages and goes."""
        fresh_since = asyncio.get_running_loop().time() - KEEPALIVE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since >= fresh_since:
                return connection
            connection.abort(ConnectionResetError("idle for too long"))
        return None

    async def _connect(self) -> HttpConnection:
        if self._closed is not None:
            raise ConnectionResetError(self._closed)
        async with asyncio.timeout(self._connect_timeout_s):
            connection = await self._connected()
        if self._closed is not None:
            connection.abort(ConnectionResetError(self._closed))
        return connection

    async def _connected(self) -> HttpConnection:
        loop = asyncio.get_running_loop()
        if self._open_socket is None:
            return (await loop.create_connection(HttpConnection, self._host, self._port))[1]
        made = await self._open_socket()
        try:
            await loop.sock_connect(made, (self._host, self._port))
            return (await loop.create_connection(HttpConnection, sock=made))[1]
        except BaseException:
            made.close()
            raise
