"""Providers that are there and do not answer: what the sample's end and a probe make of them."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from osmosis.evaluation.gateway import preflight
from tests.evaluation.gateway.upstream import completion, fails, says, until


@pytest.fixture
async def blackhole():
    """Accepts, reads, and never says a word; ``address`` ends in /v1."""
    taken: list[asyncio.StreamWriter] = []

    async def swallow(reader, writer):
        taken.append(writer)
        while await reader.read(65_536):
            pass

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/v1", taken
    server.close()
    for writer in taken:
        writer.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_to_a_peer_that_never_answers_ends_with_its_sample(
    make_bench, blackhole, stream
):
    address, taken = blackhole
    bench = await make_bench(env={"OPENAI_BASE_URL": address})
    call = asyncio.create_task(bench.post(stream=stream))
    await until(lambda: len(taken) == 1)
    route, _ = bench.session.oldest_call()
    assert route == "policy", "what the run is waiting for can be told"
    bench.session.close()
    async with asyncio.timeout(5):
        await call
    assert bench.session.calls[0].error_kind == "session_closed"
    assert bench.session.oldest_call() is None


@pytest.mark.parametrize("stream", [False, True])
async def test_a_trickle_of_bytes_keeps_no_call_alive_beyond_its_sample(
    make_bench, upstream, stream
):
    kind = "text/event-stream" if stream else "application/json"

    async def trickle(request, sent):
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        while True:
            await response.write(b":" if stream else b" ")
            await asyncio.sleep(0.02)

    upstream.answers = [trickle]
    bench = await make_bench()
    call = asyncio.create_task(bench.post(stream=stream))
    await until(lambda: upstream.in_flight == 1)
    bench.session.close()
    async with asyncio.timeout(5):
        await call
        await upstream.broken_off.wait()
    assert bench.session.calls[0].error_kind == "session_closed"


async def test_a_probe_in_the_middle_of_a_run_tells_what_is_wrong(
    make_bench, upstream, blackhole, monkeypatch
):
    bench = await make_bench()
    assert await bench.gateway.probe("policy", "auth") is None
    for answer, kind in (
        (fails(401), "model_key_rejected"),
        (fails(402, "Insufficient credits"), "model_quota_exhausted"),
        (fails(404, "The model does not exist"), "model_not_found"),
        (fails(500), "model_unreachable"),
    ):
        upstream.answers = [answer]
        fault = await bench.gateway.probe("policy", "auth")
        assert fault is not None and fault.kind == kind
    upstream.answers = [fails(429)]
    assert await bench.gateway.probe("policy", "auth") is None, "the limiter's business"
    upstream.answers = [says(completion())]
    monkeypatch.setattr(preflight, "PROBE_TIMEOUT_S", 0.1)
    dead = await make_bench(env={"OPENAI_BASE_URL": blackhole[0]})
    fault = await dead.gateway.probe("policy", "timeout")
    assert fault is not None and fault.kind == "model_unreachable"
