from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web

from osmosis.evaluation import call_width, limits
from osmosis.evaluation.gateway import Gateway
from tests.evaluation.gateway.upstream import (
    KEY,
    ROLLOUT,
    Bench,
    Log,
    Upstream,
    make_plan,
    redactor_of,
)


@pytest.fixture
async def upstream():
    """A provider at ``upstream.base_url``, which ends in /v1."""
    provider = Upstream()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", provider.chat)
    app.router.add_get("/v1/models", provider.list_models)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    provider.base_url = f"http://127.0.0.1:{port}/v1"
    yield provider
    await runner.cleanup()


@pytest.fixture
async def make_bench(tmp_path, upstream):
    """Opens gateways; ``openai/the-model`` goes to ``upstream`` unless told otherwise."""
    opened = []

    async def make(model_path="openai/the-model", *, plan=None, on_upstream=None, **more):
        if plan is None:
            more.setdefault("env", {"OPENAI_BASE_URL": upstream.base_url})
            more.setdefault("secrets", {"OPENAI_API_KEY": KEY})
            plan = make_plan(tmp_path, model_path, **more)
        log = Log()
        gateway = Gateway(plan, redactor_of(plan), log, on_upstream=on_upstream)
        await gateway.start()
        http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout())
        bench = Bench(gateway, gateway.open_session(ROLLOUT), http, log)
        opened.append(bench)
        return bench

    yield make
    for bench in opened:
        await bench.http.close()
        await bench.gateway.close()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """Backoff in milliseconds: the rules are under test, not the clock."""
    monkeypatch.setattr(call_width, "BACKOFF_FIRST_S", 0.005)
    monkeypatch.setattr(limits, "SCATTER_S", 0.001)
