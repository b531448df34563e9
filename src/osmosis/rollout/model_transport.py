"""Carries the requests of ``call_model``: short ways to the engine's gateway, aiohttp elsewhere.

The gateway is plain HTTP on loopback, one call for one answer. Any other address, which only a
caller outside the engine gives, is left to aiohttp, whose import alone takes as long as a hundred
calls and is not paid before the first of these.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from osmosis.rollout.connection_pool import ConnectionPool

if TYPE_CHECKING:
    import aiohttp

CONNECT_TIMEOUT_S = 30.0
HTTP_PORT = 80
PLAIN_URL = re.compile(r"http://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::(\d{1,5}))?(/[!-\"$-~]*)")
"""Needs no proxy, no TLS and no quoting: neither spaces nor a fragment nor other alphabets."""
OWN_HEADERS = "Accept: application/json\r\nAccept-Encoding: identity\r\n"

# One pool per event loop: opening a connection for each row costs far more than the call itself.
_transports: WeakKeyDictionary[asyncio.AbstractEventLoop, ModelTransport] = WeakKeyDictionary()


class ModelTransport:
    """The connections of one event loop; they have no time limit but for getting connected."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, int], ConnectionPool] = {}
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def current(cls) -> ModelTransport:
        """That of the running loop."""
        loop = asyncio.get_running_loop()
        transport = _transports.get(loop)
        if transport is None:
            transport = _transports[loop] = cls()
        return transport

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """(status, content) of the answer; OSError or TimeoutError when there is none."""
        plain = PLAIN_URL.fullmatch(url)
        if plain is None:
            return await self._post_by_aiohttp(url, body, headers)
        host, port, path = plain[1], int(plain[2] or HTTP_PORT), plain[3]
        pool = self._pools.get((host, port))
        if pool is None:
            pool = self._pools[host, port] = ConnectionPool(
                host.strip("[]"), port, connect_timeout_s=CONNECT_TIMEOUT_S
            )
        answer = await pool.exchange(_request(f"{host}:{port}", path, body, headers))
        return answer.status, answer.body

    async def _post_by_aiohttp(
        self, url: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        import aiohttp  # noqa: PLC0415 - heavy, and seldom needed

        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            )
        try:
            async with self._session.post(url, data=body, headers=headers) as response:
                return response.status, await response.read()
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.wind_down("the rollout server ends")
        self._pools.clear()
        if self._session is not None:
            await self._session.close()


async def close_transport() -> None:
    """Close the running loop's connections."""
    transport = _transports.pop(asyncio.get_running_loop(), None)
    if transport is not None:
        await transport.close()


def _request(host: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    lines = [f"POST {path} HTTP/1.1\r\nHost: {host}\r\n", OWN_HEADERS]
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"the header {name} has a line break in it")
        lines.append(f"{name}: {value}\r\n")
    lines.append(f"Content-Length: {len(body)}\r\n\r\n")
    return "".join(lines).encode("latin-1") + body
