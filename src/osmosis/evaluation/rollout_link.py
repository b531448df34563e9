"""The HTTP link to one life of the rollout process: a pool of connections, closed when it dies.

LinkError
├── LinkClosed       the process died, or the engine gave it up: every try on it is lost
└── LinkBroken       the process lives, but this request got no answer
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from osmosis.rollout.connection_pool import ConnectionPool, OpenSocket
from osmosis.rollout.http_connection import Answer

CONNECT_TIMEOUT_S = 10.0
STARTS_AT_ONCE = 24
"""Samples that may be on their way into the rollout at one moment. Two thousand that start in the
same breath would keep both event loops busy for seconds, and everything else waiting."""

CloseReason = Literal["exited", "refused", "blocked", "stuck", "stopped"]


class LinkError(Exception):
    """No answer. The message says what the transport said."""


class LinkClosed(LinkError):
    """The rollout process of this link is gone for good."""


class LinkBroken(LinkError):
    """A transport error of one request."""


class RolloutLink:
    """Requests to ``base_url`` until :meth:`close`. One per life of the rollout process.

    ``open_socket`` makes the sockets where those of this process do not get there.
    """

    def __init__(self, base_url: str, open_socket: OpenSocket | None = None) -> None:
        address = urlsplit(base_url)
        host, port = address.hostname or "127.0.0.1", address.port or 80
        self._host_header = f"Host: {host}:{port}\r\n"
        self._pool = ConnectionPool(
            host, port, connect_timeout_s=CONNECT_TIMEOUT_S, open_socket=open_socket
        )
        self.starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self.close_reason: CloseReason | None = None
        self.last_answer = asyncio.get_running_loop().time()

    @property
    def closed(self) -> bool:
        return self.close_reason is not None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """One exchange. Raises LinkClosed or LinkBroken; never retries."""
        try:
            if timeout_s is None:
                answer = await self._pool.exchange(self._head(method, path, body, headers))
            else:
                async with asyncio.timeout(timeout_s):
                    answer = await self._pool.exchange(self._head(method, path, body, headers))
        except (OSError, TimeoutError) as error:
            if self.close_reason is not None:
                raise LinkClosed(self.close_reason) from error
            said = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            raise LinkBroken(said or type(error).__name__) from error
        self.last_answer = asyncio.get_running_loop().time()
        return answer

    async def wind_down(self) -> None:
        """Close for good, where nothing is in flight and nobody is in a hurry."""
        if self.close_reason is None:
            self.close_reason = "stopped"
            await self._pool.wind_down("stopped")

    def close(self, reason: CloseReason) -> None:
        """Give the process up: requests in flight raise LinkClosed at once. Idempotent."""
        if self.close_reason is not None:
            return
        self.close_reason = reason
        self._pool.close(reason)

    def _head(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> bytes:
        lines = [f"{method} {path} HTTP/1.1\r\n", self._host_header]
        lines += [f"{name}: {value}\r\n" for name, value in (headers or {}).items()]
        if body is not None:
            lines.append(f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n")
        return "".join(lines).encode("latin-1") + b"\r\n" + (body or b"")
