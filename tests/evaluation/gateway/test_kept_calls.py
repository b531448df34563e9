"""What is kept of a sample's calls, looked at through the gateway that keeps it."""

from __future__ import annotations

import asyncio
import base64

import pytest

from osmosis.evaluation.gateway import kept_calls
from osmosis.evaluation.gateway.kept_calls import KeptCall, read_kept
from osmosis.evaluation.gateway.stream_assembly import completion_of
from tests.evaluation.gateway.upstream import (
    DONE,
    HELLO,
    KEY,
    WHOLE_STREAM,
    Bench,
    chunk,
    completion,
    fails,
    says,
    streams,
)


def kept(bench: Bench) -> list[KeptCall]:
    packed = bench.session.kept_calls
    return list(read_kept(base64.b64decode(packed))) if packed else []


async def test_each_answer_is_kept_with_what_was_asked(make_bench, upstream):
    upstream.answers = [says(completion("one")), says(completion("two"))]
    bench = await make_bench(advanced={"temperature": 0.5, "judge_model": "openai/the-judge"})
    await bench.post()
    grown = [*HELLO, {"role": "assistant", "content": "one"}, {"role": "user", "content": "more"}]
    await bench.post(messages=grown)
    await bench.post(judge=True)
    first, second, judged = kept(bench)
    assert [call.route for call in (first, second, judged)] == ["policy", "policy", "judge"]
    assert first.answer["choices"][0]["message"]["content"] == "one"
    assert [mark.preview for mark in second.fingerprint.messages] == ["hello", "one", "more"]
    assert second.fingerprint.fields == {"temperature": "0.5"}
    assert judged.fingerprint.fields == {}
    assert (first.number, second.number, judged.number) == (0, 1, 0)
    assert first.latency_s > 0


async def test_equal_requests_are_numbered_and_a_failed_one_gives_its_number_back(
    make_bench, upstream
):
    upstream.answers = [says(completion("a")), fails(400), says(completion("b"))]
    bench = await make_bench()
    for _ in range(3):
        await bench.post()
    calls = kept(bench)
    assert [call.error_kind for call in calls] == [None, "invalid_request", None]
    assert [call.nth for call in calls if call.answer] == [0, 1]


async def test_a_streamed_answer_is_kept_whole(make_bench, upstream):
    upstream.answers = [streams(*WHOLE_STREAM)]
    bench = await make_bench()
    await bench.post(stream=True)
    (call,) = kept(bench)
    assert call.answer["choices"][0]["message"] == {"role": "assistant", "content": "one two"}
    assert call.answer["choices"][0]["finish_reason"] == "stop"
    assert call.answer["usage"]["total_tokens"] == 7


async def test_a_stream_that_broke_off_and_a_client_that_left_keep_no_answer(make_bench, upstream):
    gate = asyncio.Event()
    upstream.answers = [streams(*WHOLE_STREAM[:2], broken=True), streams(*WHOLE_STREAM, gate=gate)]
    bench = await make_bench()
    await bench.post(stream=True)
    async with bench.open(stream=True) as response:
        await response.content.readuntil(b"\n\n")
        response.close()
    await asyncio.wait_for(upstream.broken_off.wait(), 5)
    async with asyncio.timeout(5):
        while bench.session.calls_in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    assert [(call.error_kind, call.answer) for call in kept(bench)] == [
        ("connection", None),
        ("client_disconnected", None),
    ]


async def test_an_answer_that_holds_a_secret_value_is_not_kept(make_bench, upstream):
    upstream.answers = [says(completion(f"your key is {KEY}"))]
    bench = await make_bench()
    await bench.post(messages=[{"role": "user", "content": f"is it {KEY}?"}])
    (call,) = kept(bench)
    assert call.withheld
    assert call.answer is None
    assert call.fingerprint.messages[0].preview == "is it [REDACTED]?"
    assert KEY not in str(call)


async def test_a_sample_without_calls_keeps_nothing(make_bench):
    assert (await make_bench()).session.kept_calls is None


async def test_a_sample_of_very_many_calls_stays_bounded_and_says_what_it_lost(
    make_bench, upstream, monkeypatch
):
    monkeypatch.setattr(kept_calls, "MAX_BYTES", 2000)
    monkeypatch.setattr(kept_calls, "MEMBER_BYTES", 1000)
    bench = await make_bench()
    for _ in range(20):
        await bench.post()
    assert 0 < len(kept(bench)) < 20


def test_damaged_calls_are_an_error_and_no_guess():
    with pytest.raises(ValueError, match="damaged"):
        list(read_kept(b"nonsense"))


def test_a_stream_in_any_pieces_becomes_the_message_it_spells():
    lines = [
        chunk({"role": "assistant", "content": None, "reasoning_content": "I "}),
        chunk({"reasoning_content": "think"}),
        chunk({"tool_calls": [tool(0, id="c1", name="add", arguments="")]}),
        chunk({"tool_calls": [tool(0, arguments='{"a":'), tool(1, id="c2", name="sub")]}),
        chunk({"tool_calls": [tool(0, arguments="1}")]}),
        chunk({}, "tool_calls"),
        chunk(None, usage={"prompt_tokens": 1}),
        DONE,
    ]
    body = completion_of([line[6:].strip() for line in lines])
    message = body["choices"][0]["message"]
    assert message["reasoning_content"] == "I think"
    assert [call["id"] for call in message["tool_calls"]] == ["c1", "c2"]
    assert message["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert body["usage"] == {"prompt_tokens": 1}
    assert completion_of([b"[DONE]"]) is None
    assert completion_of([b"{torn"]) is None


def tool(index: int, *, id: str | None = None, **function: str) -> dict:
    head = {"id": id, "type": "function"} if id else {}
    return {"index": index, **head, "function": function}
