from __future__ import annotations

import asyncio

import orjson
import pytest
from aiohttp import web

from osmosis.evaluation.gateway import event_stream, openai_compatible
from osmosis.evaluation.gateway.stream_relay import StreamRelay
from tests.evaluation.gateway.upstream import (
    DONE,
    KEY,
    WHOLE_STREAM,
    chunk,
    completion,
    fails,
    says,
    streams,
    until,
)


def events(raw: bytes) -> list[tuple[str, object]]:
    """(event name, data) of each event; comments are left out."""
    found = []
    for block in raw.decode().split("\n\n"):
        name, data = "message", None
        for line in block.splitlines():
            if line.startswith("event:"):
                name = line[6:].strip()
            if line.startswith("data:"):
                text = line[5:].strip()
                data = text if text == "[DONE]" else orjson.loads(text)
        if data is not None:
            found.append((name, data))
    return found


async def test_a_stream_passes_through_as_it_comes_and_is_recorded(make_bench, upstream):
    gate = asyncio.Event()
    upstream.answers = [streams(*WHOLE_STREAM, gate=gate)]
    bench = await make_bench()
    async with bench.open(stream=True) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        first = await asyncio.wait_for(response.content.readuntil(b"\n\n"), 5)
        assert b"one" in first, "the first chunk is here before the second is sent"
        gate.set()
        rest = await response.read()
    told = events(first + rest)
    assert [name for name, _ in told] == ["message"] * 5
    assert told[-1][1] == "[DONE]"
    assert {event["model"] for _, event in told[:-1]} == {"whatever"}
    assert upstream.bodies[0]["stream_options"] == {"include_usage": True}
    (call,) = bench.session.calls
    assert call.streamed
    assert (call.prompt_tokens, call.completion_tokens) == (5, 2)
    assert (call.finish_reason, call.http_status, call.error_kind) == ("stop", 200, None)


async def test_pieces_in_a_burst_are_passed_on_together(make_bench, upstream, monkeypatch):
    monkeypatch.setattr(openai_compatible, "BURST_S", 0.2)
    words = [f"word{number} " for number in range(40)]

    async def burst(request, sent):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for word in words:
            await response.write(chunk({"content": word}))
            await asyncio.sleep(0.001)
        await response.write(chunk({}, "stop") + DONE)
        return response

    upstream.answers = [burst]
    bench = await make_bench()
    async with bench.open(stream=True) as response:
        pieces = [piece async for piece in response.content.iter_any()]
    told = [data for _, data in events(b"".join(pieces)) if data != "[DONE]"]
    assert "".join(one["choices"][0]["delta"].get("content") or "" for one in told) == "".join(
        words
    )
    assert len(pieces) < len(words) / 4


async def test_a_stream_refused_before_it_began_keeps_its_status(make_bench, upstream):
    upstream.answers = [fails(404, "no such model")]
    bench = await make_bench()
    status, body, headers = await bench.post(stream=True)
    assert status == 404
    assert body["error"]["message"] == "no such model"
    assert headers["x-should-retry"] == "false"


async def test_a_stream_is_retried_as_long_as_nothing_was_passed_on(make_bench, upstream):
    upstream.answers = [fails(503), fails(429), streams(*WHOLE_STREAM)]
    bench = await make_bench()
    status, raw, _ = await bench.post(stream=True)
    assert status == 200
    assert events(raw)[-1][1] == "[DONE]"
    assert bench.session.calls[0].upstream_requests == upstream.hits == 3


async def test_an_error_inside_a_stream_becomes_an_error_event_and_the_end(make_bench, upstream):
    error = {"error": {"message": f"overloaded {KEY}", "type": "server_error"}}
    upstream.answers = [streams(WHOLE_STREAM[0], b"data: " + orjson.dumps(error) + b"\n\n", DONE)]
    bench = await make_bench()
    status, raw, _ = await bench.post(stream=True)
    assert status == 200
    told = events(raw)
    assert [name for name, _ in told] == ["message", "error", "message"]
    assert told[1][1]["error"]["message"] == "overloaded [REDACTED]"
    assert told[2][1] == "[DONE]"
    assert bench.session.calls[0].error_kind == "overloaded"
    assert upstream.hits == 1


@pytest.mark.parametrize("broken", [True, False])
async def test_a_stream_that_breaks_off_ends_with_an_error_event(make_bench, upstream, broken):
    upstream.answers = [streams(WHOLE_STREAM[0], broken=broken)]
    bench = await make_bench()
    _, raw, _ = await bench.post(stream=True)
    assert [name for name, _ in events(raw)] == ["message", "error", "message"]
    assert bench.session.calls[0].error_kind == "connection"
    assert upstream.hits == 1, "the client has part of it, so it is not repeated"


async def test_a_missing_done_is_added(make_bench, upstream):
    upstream.answers = [streams(*WHOLE_STREAM[:3])]
    bench = await make_bench()
    _, raw, _ = await bench.post(stream=True)
    assert events(raw)[-1][1] == "[DONE]"
    assert bench.session.calls[0].error_kind is None


async def test_an_endpoint_that_does_not_stream_still_serves_a_streaming_client(
    make_bench, upstream
):
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    whole = completion("six", message={"tool_calls": [call]}, finish_reason="tool_calls")
    upstream.answers = [says(whole)]
    bench = await make_bench()
    _, raw, _ = await bench.post(stream=True)
    told = [event for _, event in events(raw)]
    deltas = [event["choices"][0]["delta"] for event in told[:-2]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "six"
    assert deltas[2]["tool_calls"] == [{"index": 0, **call}]
    assert told[-3]["choices"][0]["finish_reason"] == "tool_calls"
    assert told[-2]["usage"]["total_tokens"] == 10
    assert told[-1] == "[DONE]"


async def test_comments_keep_a_waiting_client_alive_and_a_late_error_is_an_event(
    make_bench, upstream, monkeypatch
):
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.02)
    gate = asyncio.Event()

    async def late(request, sent):
        await gate.wait()
        return await fails(400, "too long")(request, sent)

    upstream.answers = [late]
    bench = await make_bench()
    async with bench.open(stream=True) as response:
        assert response.status == 200
        assert await asyncio.wait_for(response.content.readuntil(b"\n\n"), 5) == b": ping\n\n"
        assert await asyncio.wait_for(response.content.readuntil(b"\n\n"), 5) == b": ping\n\n"
        gate.set()
        told = events(await response.read())
    assert told[0][0] == "error"
    assert told[0][1]["detail"] == "too long"
    assert told[1][1] == "[DONE]"


async def test_comments_never_split_an_event(make_bench, upstream, monkeypatch):
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.02)
    gate = asyncio.Event()
    whole = WHOLE_STREAM[0]
    upstream.answers = [streams(whole[:30], whole[30:-1], b"\n", *WHOLE_STREAM[1:], gate=gate)]
    bench = await make_bench()
    async with bench.open(stream=True) as response:
        await asyncio.sleep(0.1)
        gate.set()
        told = events(await response.read())
    assert told[0][1]["choices"][0]["delta"]["content"] == "one"
    assert told[-1][1] == "[DONE]"


async def test_a_client_that_leaves_a_stream_cancels_it(make_bench, upstream):
    gate = asyncio.Event()
    upstream.answers = [streams(*WHOLE_STREAM, gate=gate)]
    bench = await make_bench()
    async with bench.open(stream=True) as response:
        await response.content.readuntil(b"\n\n")
        response.close()
    await asyncio.wait_for(upstream.broken_off.wait(), 5)
    await until(lambda: bool(bench.session.calls))
    assert bench.session.calls[0].error_kind == "client_disconnected"


async def test_closing_the_session_ends_a_running_stream_with_an_error_event(make_bench, upstream):
    upstream.answers = [streams(*WHOLE_STREAM, gate=asyncio.Event())]
    bench = await make_bench()
    async with bench.open(stream=True) as response:
        await response.content.readuntil(b"\n\n")
        bench.session.close()
        told = events(await response.read())
    assert told[0][0] == "error"
    assert told[0][1]["error"]["code"] == "session_closed"
    await asyncio.wait_for(upstream.broken_off.wait(), 5)


async def test_options_of_the_client_are_kept_beside_the_usage_we_ask_for(make_bench, upstream):
    upstream.answers = [streams(*WHOLE_STREAM)]
    bench = await make_bench()
    await bench.post(stream=True, stream_options={"include_usage": False, "other": 1})
    assert upstream.bodies[0]["stream_options"] == {"include_usage": True, "other": 1}


async def test_an_endpoint_that_refuses_stream_options_is_asked_without(make_bench, upstream):
    refusal = fails(400, "Unrecognized request argument supplied: stream_options")
    upstream.answers = [refusal, streams(*WHOLE_STREAM)]
    bench = await make_bench()
    for _ in range(2):
        status, _, _ = await bench.post(stream=True)
        assert status == 200
    assert ["stream_options" in body for body in upstream.bodies] == [True, False, False]
    assert [call.upstream_requests for call in bench.session.calls] == [2, 1]


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_the_relay_does_not_depend_on_how_bytes_are_cut(size):
    tricky = 'say "usage": {"x"} and \\"error\\": {"y"} and "model":"the-real-name"'
    raw = chunk({"content": tricky}) + b"".join(WHOLE_STREAM)
    relay = StreamRelay("asked")
    out = b"".join(relay.feed(raw[i : i + size]) for i in range(0, len(raw), size)) + relay.end()
    assert relay.failure is None
    assert relay.usage.prompt_tokens == 5
    assert relay.finish_reason == "stop"
    told = events(out)
    assert told[0][1]["choices"][0]["delta"]["content"] == tricky
    assert {event["model"] for _, event in told[:-1]} == {"asked"}


def test_the_relay_understands_carriage_returns_and_no_space_after_the_colon():
    relay = StreamRelay("asked")
    raw = b"".join(WHOLE_STREAM).replace(b"data: ", b"data:").replace(b"\n", b"\r\n")
    relay.feed(raw)
    relay.end()
    assert relay.failure is None
    assert relay.done
    assert relay.usage.completion_tokens == 2
