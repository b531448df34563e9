"""An HTTP proxy before the platform that cuts answers after the request was done, and repeats
requests, by a seeded choice. For connections of workers, on loopback."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Self

import aiohttp
from aiohttp import web

CUT_SHARE, REPEAT_SHARE, DELAY_SHARE = 0.15, 0.15, 0.1
DELAY_S = 0.3
HOP_HEADERS = {
    "transfer-encoding",
    "content-length",
    "connection",
    "keep-alive",
    "content-encoding",
}


class CuttingProxy:
    """``with CuttingProxy(url, seed=1) as proxy``; a thread of its own serves ``proxy.url``."""

    def __init__(self, upstream: str, *, seed: int) -> None:
        self._upstream = upstream
        self._rng = random.Random(seed)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.cut = self.repeated = 0
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the proxy did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _serve(self) -> None:
        self._loop.run_until_complete(self._main())

    async def _main(self) -> None:
        async with aiohttp.ClientSession(auto_decompress=False) as self._session:
            runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)  # type: ignore[arg-type]
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._ready.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        if self._rng.random() < DELAY_SHARE:
            await asyncio.sleep(DELAY_S)
        if self._rng.random() < REPEAT_SHARE:
            self.repeated += 1
            await self._ask(request, body)
        status, headers, answer = await self._ask(request, body)
        if self._rng.random() < CUT_SHARE and request.transport is not None:
            self.cut += 1
            request.transport.abort()
        return web.Response(status=status, headers=headers, body=answer)

    async def _ask(
        self, request: web.BaseRequest, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP_HEADERS}
        async with self._session.request(
            request.method, self._upstream + request.path_qs, data=body, headers=headers
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP_HEADERS}
            return answer.status, kept, await answer.read()
