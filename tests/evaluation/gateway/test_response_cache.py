"""``[advanced] cache``: who gets an earlier answer, and what is never kept."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from osmosis.evaluation.gateway import response_cache
from osmosis.wire.runner import ModelEndpoint
from tests.evaluation.gateway.test_streaming import events
from tests.evaluation.gateway.upstream import (
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

CACHED = {"cache": True}
Run = Callable[..., Awaitable[Bench]]


class DictStore:
    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.broken = False

    async def lookup(self, key: str) -> bytes | None:
        if self.broken:
            raise OSError("the disk is gone")
        return self.values.get(key)

    async def put(self, key: str, value: bytes) -> None:
        if self.broken:
            raise OSError("the disk is gone")
        self.values[key] = value

    @property
    def text(self) -> str:
        return "".join(gzip.decompress(value).decode() for value in self.values.values())


@pytest.fixture
def store() -> DictStore:
    return DictStore()


@pytest.fixture
def new_run(make_bench: Run, store: DictStore) -> Run:
    """Another run with the same store; the earlier one's answers are put away by then."""
    last: list[Bench] = []

    async def start(*args: Any, place: tuple[int, int] = (0, 0), **more: Any) -> Bench:
        while last:
            await last.pop().gateway.close()
        advanced = {**CACHED, **more.pop("advanced", {})}
        bench = await make_bench(*args, advanced=advanced, response_store=store, **more)
        bench.session = bench.gateway.open_session(
            "f" * 32, source_row=place[0], run_index=place[1]
        )
        last.append(bench)
        return bench

    return start


async def test_a_second_run_asks_no_model_and_tells_what_it_saved(new_run, upstream):
    upstream.answers = [says(completion("one", usage=USAGE))]
    for _ in range(2):
        bench = await new_run("openai/gpt-4o-mini", env={"OPENAI_BASE_URL": upstream.base_url})
        await bench.gateway.preflight()
        status, body, _ = await bench.post()
        assert (status, body["choices"][0]["message"]["content"]) == (200, "one")
        assert body["model"] == "whatever"
    assert upstream.hits == 2, "the check and the call of the first run"
    (call,) = bench.session.calls
    assert call.cached
    assert (call.cost_usd, call.upstream_requests, call.prompt_tokens) == (0.0, 0, 1000)
    assert call.saved_usd is None, "nobody knows the price of a custom address"
    assert call.queue_s == 0
    assert any("answered this check" in line for _, line in bench.log.lines)


USAGE = {"prompt_tokens": 1000, "completion_tokens": 100}


async def test_a_cached_call_keeps_the_latency_and_the_cost_of_the_first(
    new_run, upstream, monkeypatch
):
    async def slow(request, sent):
        await asyncio.sleep(0.15)
        return await says(completion("one", usage={**USAGE, "cost": 0.25}))(request, sent)

    upstream.answers = [slow]
    calls = []
    for _ in range(3):
        more = {"OPENROUTER_API_BASE": upstream.base_url}
        bench = await new_run(
            "openrouter/a/b", env=more, secrets={"OPENROUTER_API_KEY": "sk-or-0123"}
        )
        await bench.post()
        calls += bench.session.calls
    assert [call.cached for call in calls] == [False, True, True]
    assert [call.cost_usd for call in calls] == [0.25, 0.0, 0.0]
    assert [call.saved_usd for call in calls] == [None, 0.25, 0.25]
    assert calls[0].latency_s >= 0.15
    assert calls[1].latency_s == calls[2].latency_s == pytest.approx(calls[0].latency_s)


async def test_runs_of_a_row_equal_rows_and_repeated_requests_stay_independent_draws(
    new_run, upstream
):
    texts = [f"draw {number}" for number in range(6)]
    upstream.answers = [says(completion(text)) for text in texts]
    places = [(0, 0), (0, 1), (7, 0)]

    async def ask_all() -> list[str]:
        told = []
        for place in places:
            bench = await new_run(place=place)
            for _ in range(2):
                _, body, _ = await bench.post()
                told.append(body["choices"][0]["message"]["content"])
        return told

    assert await ask_all() == texts
    assert await ask_all() == texts
    assert upstream.hits == 6


async def test_an_answer_is_given_only_to_the_same_request_to_the_same_model(new_run, upstream):
    await (await new_run()).post()
    for change in ({"temperature": 0.1}, {"messages": [{"role": "user", "content": "bye"}]}):
        await (await new_run()).post(**change)
    await (await new_run(advanced={"max_tokens": 5})).post()
    await (await new_run("openai/another")).post()
    endpoint = ModelEndpoint(name="box", base_url=upstream.base_url, model="the-model")
    await (await new_run("box", endpoints=(endpoint,))).post()
    assert upstream.hits == 6
    await (await new_run(secrets={"OPENAI_API_KEY": "sk-another-key"})).post()
    assert upstream.hits == 6, "the credential is not part of what answers"


async def test_a_stream_and_a_whole_answer_stand_in_for_each_other(new_run, upstream):
    upstream.answers = [streams(*WHOLE_STREAM)]
    await (await new_run()).post(stream=True)
    bench = await new_run()
    _, body, _ = await bench.post()
    assert body["choices"][0]["message"]["content"] == "one two"
    bench = await new_run()
    async with bench.open(stream=True) as response:
        assert response.content_type == "text/event-stream"
        told = events(await response.read())
    assert told[-1][1] == "[DONE]"
    deltas = [event["choices"][0]["delta"] for _, event in told[:-1] if event["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "one two"
    assert told[-2][1]["usage"]["total_tokens"] == 7
    assert bench.session.calls[0].cached
    assert bench.session.calls[0].streamed
    assert upstream.hits == 1


async def test_a_cached_stream_with_tool_calls_is_one_that_a_client_library_reads(
    new_run, upstream
):
    pieces = [
        chunk({"role": "assistant", "tool_calls": [_piece(id="c1", name="add", arguments="")]}),
        chunk({"tool_calls": [_piece(arguments='{"a":1}')]}),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]
    upstream.answers = [streams(*pieces)]
    for _ in range(2):
        bench = await new_run()
        client = openai.AsyncOpenAI(
            base_url=bench.session.chat_completions_url, api_key=bench.session.api_key
        )
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
        functions = [
            call.function
            async for event in stream
            for choice in event.choices
            for call in choice.delta.tool_calls or ()
        ]
        await client.close()
        assert "".join(one.name or "" for one in functions) == "add"
        assert "".join(one.arguments or "" for one in functions) == '{"a":1}'
    assert upstream.hits == 1


def _piece(*, id: str | None = None, **function: str) -> dict[str, Any]:
    head = {"id": id, "type": "function"} if id else {}
    return {"index": 0, **head, "function": function}


@pytest.mark.parametrize(
    ("answer", "stream"),
    [
        (says(completion(finish_reason="length")), False),
        (says(completion(finish_reason="content_filter")), False),
        (says(completion(finish_reason=None)), False),
        (fails(500), False),
        (fails(400, "content management policy"), False),
        (streams(*WHOLE_STREAM[:2], broken=True), True),
        (streams(WHOLE_STREAM[0], chunk({}, "length"), b"data: [DONE]\n\n"), True),
    ],
    ids=["cut", "filtered", "endless", "failed", "refused", "torn stream", "cut stream"],
)
async def test_what_is_not_a_whole_answer_is_not_kept(new_run, upstream, store, answer, stream):
    upstream.answers = [answer]
    for _ in range(2):
        bench = await new_run(advanced={"max_retries": 0})
        await bench.post(stream=stream)
        assert not bench.session.calls[0].cached
    assert upstream.hits == 2
    assert not store.values


async def test_a_call_that_the_client_left_is_not_kept(new_run, upstream, store):
    gate = asyncio.Event()
    upstream.answers = [streams(*WHOLE_STREAM, gate=gate)]
    bench = await new_run()
    async with bench.open(stream=True) as response:
        await response.content.readuntil(b"\n\n")
        response.close()
    await asyncio.wait_for(upstream.broken_off.wait(), 5)
    await new_run()
    assert not store.values


async def test_a_secret_value_is_never_stored_nor_answered_from_the_store(new_run, upstream, store):
    asked = {"messages": [{"role": "user", "content": f"my key is {KEY}"}]}
    for _ in range(2):
        await (await new_run()).post(**asked)
    upstream.answers = [says(completion(f"it was {KEY}"))]
    for _ in range(2):
        await (await new_run()).post()
    await new_run()
    assert upstream.hits == 4
    assert not store.values


async def test_the_judge_is_cached_like_the_policy(new_run, upstream):
    for _ in range(2):
        bench = await new_run(advanced={"judge_model": "openai/the-judge"})
        await bench.gateway.preflight()
        await bench.post(judge=True)
    assert upstream.hits == 3
    assert bench.session.calls[0].cached


async def test_what_the_check_learned_is_known_to_a_run_whose_check_was_cached(new_run, upstream):
    refused = fails(400, "Unsupported parameter: use 'max_completion_tokens' instead.")
    upstream.answers = [refused, says(completion())]
    for text in ("first", "second"):
        bench = await new_run(advanced={"max_tokens": 9})
        await bench.gateway.preflight()
        await bench.post(messages=[{"role": "user", "content": text}])
    assert upstream.hits == 4
    assert [body.get("max_completion_tokens") for body in upstream.bodies] == [None, 9, 9, 9]


async def test_a_failed_check_is_not_remembered(new_run, upstream):
    upstream.answers = [fails(500)]
    for _ in range(2):
        await (await new_run()).gateway.preflight()
    assert upstream.hits == 2


async def test_a_store_that_fails_costs_no_call_and_is_told_once(new_run, upstream, store):
    store.broken = True
    bench = await new_run()
    for _ in range(3):
        status, _, _ = await bench.post()
        assert status == 200
    await bench.gateway.close()
    warnings = [line for level, line in bench.log.lines if level == "warning"]
    assert len(warnings) == 1
    assert "the disk is gone" in warnings[0]


async def test_an_entry_of_another_format_is_a_miss(new_run, upstream, store, monkeypatch):
    await (await new_run()).post()
    await new_run()
    monkeypatch.setattr(response_cache, "FORMAT", 2)
    await (await new_run()).post()
    assert upstream.hits == 2


async def test_a_scripted_model_is_not_cached_for_its_file_may_change(
    new_run, store, tmp_path: Path
):
    (tmp_path / "m.toml").write_text('[[rules]]\nreply = "a"\n')
    await (await new_run("scripted/m.toml")).post()
    await new_run("scripted/m.toml")
    assert not store.values


async def test_without_the_setting_nothing_is_stored(make_bench, upstream, store):
    bench = await make_bench(response_store=store)
    await bench.post()
    await bench.gateway.close()
    assert not store.values
