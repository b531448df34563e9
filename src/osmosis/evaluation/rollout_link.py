"""The HTTP link to one life of the rollout process: one connection pool, closed when it dies.

LinkError
├── LinkClosed       the process died, or the engine gave it up: every try on it is lost
└── LinkBroken       the process lives, but this request got no answer
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp

from osmosis.evaluation.strict_json import loads

KEEPALIVE_S = 3.0
"""Below the 5 s after which uvicorn closes an idle connection: no request on a dying one."""
CONNECT_TIMEOUT_S = 10.0
MAX_ERROR_CHARS = 2000

CloseReason = Literal["exited", "blocked", "stuck", "stopped"]


class LinkError(Exception):
    """No answer. The message says what the transport said."""


class LinkClosed(LinkError):
    """The rollout process of this link is gone for good."""


class LinkBroken(LinkError):
    """A transport error of one request."""


@dataclass(slots=True, frozen=True)
class Answer:
    """An HTTP answer, read whole."""

    status: int
    body: bytes
    retry_after: str | None = None

    def json(self) -> Any:
        """The parsed body; ValueError when it is not JSON."""
        return loads(self.body)

    def text(self) -> str:
        return self.body[:MAX_ERROR_CHARS].decode("utf-8", "replace").strip()


class RolloutLink:
    """Requests to ``base_url`` until :meth:`close`. One per life of the rollout process."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url.rstrip("/")
        self.close_reason: CloseReason | None = None
        self.last_answer = asyncio.get_running_loop().time()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            auto_decompress=False,
            trust_env=False,
        )

    @property
    def closed(self) -> bool:
        return self.close_reason is not None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """One exchange. Raises LinkClosed or LinkBroken; never retries."""
        if self.close_reason is not None:
            raise LinkClosed(self.close_reason)
        if body is not None:
            headers = {"Content-Type": "application/json", **(headers or {})}
        try:
            async with self._session.request(
                method,
                self.base_url + path,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S),
            ) as response:
                answer = Answer(
                    response.status, await response.read(), response.headers.get("Retry-After")
                )
        except (aiohttp.ClientError, OSError, TimeoutError, RuntimeError) as error:
            # aiohttp says RuntimeError when the session was closed between two requests.
            if self.close_reason is not None:
                raise LinkClosed(self.close_reason) from error
            raise LinkBroken(str(error) or type(error).__name__) from error
        self.last_answer = asyncio.get_running_loop().time()
        return answer

    async def close(self, reason: CloseReason) -> None:
        """Give the process up: requests in flight raise LinkClosed at once. Idempotent."""
        if self.close_reason is None:
            self.close_reason = reason
            await self._session.close()
