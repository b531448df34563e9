"""The Messages dialect: requests and answers as Anthropic's own client sends and reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from osmosis.evaluation.gateway import event_stream
from tests.evaluation.gateway.upstream import (
    DONE,
    HELLO,
    WHOLE_STREAM,
    Bench,
    chunk,
    completion,
    fails,
    says,
    streams,
    until,
)

ADD = {
    "name": "add",
    "description": "Adds.",
    "input_schema": {"type": "object", "properties": {"a": {"type": "number"}}},
}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
SIGNED = {"type": "thinking", "thinking": "two numbers", "signature": "sig"}


def open_call(bench: Bench, *, path: str = "v1/messages", key: str | None = None, **more: Any):
    body = {"model": "claude", "max_tokens": 100, "messages": HELLO, **more}
    url = f"{bench.session.chat_completions_url}/{path}"
    headers = {"x-api-key": key or bench.session.api_key, "anthropic-version": "2023-06-01"}
    return bench.http.post(url, data=orjson.dumps(body), headers=headers)


async def ask(bench: Bench, **more: Any) -> tuple[int, dict[str, Any], Any]:
    async with open_call(bench, **more) as response:
        return response.status, orjson.loads(await response.read()), response.headers


async def listen(bench: Bench, **more: Any) -> list[dict[str, Any]]:
    async with open_call(bench, stream=True, **more) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        return events_in(await response.read())


def events_in(raw: bytes) -> list[dict[str, Any]]:
    events = []
    for block in raw.decode().strip().split("\n\n"):
        name, data = block.split("\n")
        event = orjson.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def told(events: Iterable[dict[str, Any]], field: str) -> list[Any]:
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return [delta[field] for delta in deltas if field in delta]


@pytest.mark.parametrize("path", ["v1/messages", "messages", "v1/messages?beta=true"])
async def test_a_call_is_answered_and_recorded_as_a_chat_completion_is(make_bench, upstream, path):
    usage = {
        "prompt_tokens": 20,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 3},
    }
    upstream.answers = [says(completion("hi there", usage=usage))]
    bench = await make_bench()
    status, body, _ = await ask(
        bench,
        path=path,
        system=[{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        temperature=0.5,
        top_k=4,
        stop_sequences=["END"],
        metadata={"user_id": "u"},
    )
    assert status == 200
    assert body.pop("id").startswith("msg_")
    assert body == {
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "hi there"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 5,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 12,
            "output_tokens": 9,
        },
    }
    assert upstream.bodies[0] == {
        "model": "the-model",
        "max_tokens": 100,
        "messages": [{"role": "system", "content": "Be kind."}, *HELLO],
        "temperature": 0.5,
        "top_k": 4,
        "stop": ["END"],
    }
    (call,) = bench.session.calls
    assert (call.http_status, call.finish_reason, call.prompt_tokens) == (200, "stop", 20)


async def test_either_header_lets_the_client_in_and_a_wrong_key_does_not(make_bench):
    bench = await make_bench()
    status, body, headers = await ask(bench, key="wrong")
    assert (status, headers["x-should-retry"]) == (401, "false")
    assert (body["type"], body["error"]["type"]) == ("error", "authentication_error")
    url = f"{bench.session.chat_completions_url}/v1/messages"
    bearer = {"Authorization": f"Bearer {bench.session.api_key}", "x-api-key": "of the shell"}
    async with bench.http.post(url, json={"messages": HELLO}, headers=bearer) as response:
        assert response.status == 200
    chat = f"{bench.session.chat_completions_url}/chat/completions"
    key = {"x-api-key": bench.session.api_key}
    async with bench.http.post(chat, json={"messages": HELLO}, headers=key) as response:
        assert response.status == 401, "the other dialects know bearers only"


async def test_tools_go_there_and_back_with_what_the_model_answered(make_bench, upstream):
    first = completion("I add.", message={"tool_calls": [CALL]}, finish_reason="tool_calls")
    upstream.answers = [says(first), says(completion("3"))]
    bench = await make_bench()
    choice = {"type": "tool", "name": "add", "disable_parallel_tool_use": True}
    _, body, _ = await ask(bench, tools=[ADD], tool_choice=choice)
    assert body["stop_reason"] == "tool_use"
    assert body["content"] == [
        {"type": "text", "text": "I add."},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
    ]
    sent = upstream.bodies[0]
    assert sent["tools"][0]["function"] == {
        "name": "add", "description": "Adds.", "parameters": ADD["input_schema"],
    }  # fmt: skip
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "add"}}
    assert sent["parallel_tool_calls"] is False

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "3"}, image],
    }
    go_on = {"type": "text", "text": "go on"}
    turns = [
        *HELLO,
        {"role": "assistant", "content": body["content"]},
        {"role": "user", "content": [result, go_on]},
    ]
    await ask(bench, messages=turns, tools=[ADD], tool_choice={"type": "any"})
    assert upstream.bodies[1]["tool_choice"] == "required"
    messages = upstream.bodies[1]["messages"]
    function = {"name": "add", "arguments": '{"a":1}'}
    assert messages[1] == {
        "role": "assistant",
        "content": "I add.",
        "tool_calls": [{**CALL, "function": function}],
    }
    assert messages[2] == {"role": "tool", "tool_call_id": "c1", "content": "3"}
    picture, last = messages[3]["content"][1:]
    assert picture == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    assert last == go_on


async def test_documents_effort_and_the_form_of_the_answer_are_translated(make_bench, upstream):
    bench = await make_bench()
    schema = {"type": "object", "properties": {}}
    plain = {
        "type": "document",
        "source": {"type": "text", "data": "a", "media_type": "text/plain"},
    }
    pdf = {"type": "document", "source": {"type": "base64", "data": "b", "media_type": "x/pdf"}}
    await ask(
        bench,
        messages=[{"role": "user", "content": [plain, pdf]}],
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": schema}},
    )
    sent = upstream.bodies[0]
    assert sent["messages"][0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:x/pdf;base64,b"}},
    ]
    assert sent["reasoning_effort"] == "low"
    assert sent["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize(
    ("finish", "more", "expected"),
    [
        ("length", {}, ("max_tokens", None)),
        ("content_filter", {}, ("refusal", None)),
        ("stop", {"stop_reason": "END"}, ("stop_sequence", "END")),
        ("stop", {"stop_reason": 128009}, ("end_turn", None)),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_each_end_has_its_stop_reason(make_bench, upstream, finish, more, expected, stream):
    whole = completion("one", finish_reason=finish)
    whole["choices"][0].update(more)
    last = {"index": 0, "delta": {"content": "one"}, "finish_reason": finish, **more}
    event = b"data: " + orjson.dumps({"choices": [last]}) + b"\n\n"
    upstream.answers = [streams(event, DONE) if stream else says(whole)]
    bench = await make_bench()
    if stream:
        end = (await listen(bench, stop_sequences=["END"]))[-2]["delta"]
    else:
        _, end, _ = await ask(bench, stop_sequences=["END"])
    assert (end["stop_reason"], end["stop_sequence"]) == expected


async def test_thoughts_are_told_to_clients_that_ask_for_them_and_come_back_signed(
    make_bench, upstream
):
    message = {"reasoning_content": "two numbers", "thinking_blocks": [SIGNED]}
    upstream.answers = [says(completion("3", message=message))]
    bench = await make_bench()
    _, silent, _ = await ask(bench)
    assert [block["type"] for block in silent["content"]] == ["text"]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    _, body, _ = await ask(bench, thinking=thinking)
    assert body["content"] == [SIGNED, {"type": "text", "text": "3"}]
    assert "thinking" not in upstream.bodies[1], "not a field of chat completions"
    turns = [*HELLO, {"role": "assistant", "content": body["content"]}, *HELLO]
    await ask(bench, messages=turns)
    assert upstream.bodies[2]["messages"][1] == {"role": "assistant", "content": "3", **message}


async def test_a_stream_tells_the_events_in_their_order_as_they_come(make_bench, upstream):
    gate = asyncio.Event()
    upstream.answers = [streams(*WHOLE_STREAM, gate=gate)]
    bench = await make_bench()
    async with open_call(bench, stream=True) as response:
        raw = b""
        async with asyncio.timeout(5):
            while b'"one"' not in raw:
                raw += await response.content.readany()
        gate.set()  # the first piece is here before the provider says the second
        raw += await response.read()
    events = events_in(raw)
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert told(events, "text") == ["one", " two"]
    assert events[0]["message"]["content"] == []
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert (events[-2]["usage"]["input_tokens"], events[-2]["usage"]["output_tokens"]) == (5, 2)
    (call,) = bench.session.calls
    assert (call.streamed, call.prompt_tokens, call.finish_reason) == (True, 5, "stop")


async def test_a_streamed_thought_text_and_calls_are_blocks_one_after_the_other(
    make_bench, upstream
):
    def piece(index, **function):
        more = {"id": f"c{index}", "type": "function"} if "name" in function else {}
        return chunk({"tool_calls": [{"index": index, **more, "function": function}]})

    upstream.answers = [
        streams(
            chunk({"role": "assistant", "reasoning_content": "h"}),
            chunk({"reasoning_content": "m"}),
            chunk({"content": "I add."}),
            piece(0, name="add", arguments='{"a"'),
            piece(1, name="add", arguments="not JSON"),
            piece(0, arguments=": 1}"),
            chunk({}, "tool_calls"),
            DONE,
        )
    ]
    bench = await make_bench()
    events = await listen(bench, tools=[ADD], thinking={"type": "adaptive"})
    starts = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    assert [block["type"] for block in starts] == ["thinking", "text", "tool_use", "tool_use"]
    assert [e["index"] for e in events if e["type"] == "content_block_stop"] == [0, 1, 2, 3]
    assert told(events, "thinking") == ["h", "m"]
    arguments = [orjson.loads(part) for part in told(events, "partial_json")]
    assert arguments == [{"a": 1}, {"_raw": "not JSON"}]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


async def test_signed_thoughts_are_streamed_with_their_signature(make_bench, upstream):
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    delta = {"reasoning_content": "two numbers", "thinking_blocks": [SIGNED, hidden]}
    upstream.answers = [streams(chunk(delta), chunk({"content": "3"}, "stop"), DONE)]
    bench = await make_bench()
    events = await listen(bench, thinking={"type": "adaptive"})
    starts = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    assert [block["type"] for block in starts] == ["thinking", "redacted_thinking", "text"]
    assert told(events, "thinking") == ["two numbers"]
    assert told(events, "signature") == ["sig"]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
        ({"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
        ({"api_base": "http://evil"}, "api_base"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "container_upload"}]}]},
         "container_upload"),
        ({"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}]},
         "server_tool_use"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "image"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "role"),
        ({"system": 3}, "system"),
        ({"tools": [ADD], "tool_choice": {"type": "x"}}, "tool_choice"),
        ({"tools": [ADD], "tool_choice": {"type": []}}, "tool_choice"),
        ({"tools": [ADD], "tool_choice": ["any"]}, "tool_choice"),
        ({"output_config": {"format": {"type": "grammar"}}}, "output_config"),
    ],
)  # fmt: skip
async def test_what_is_not_offered_is_refused_by_name_and_reaches_nobody(
    make_bench, upstream, more, named
):
    bench = await make_bench()
    status, body, headers = await ask(bench, **more)
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert named in body["error"]["message"]
    assert headers["x-should-retry"] == "false"
    assert upstream.hits == 0
    assert [call.error_kind for call in bench.session.calls] == ["bad_request"]


@pytest.mark.parametrize("stream", [False, True])
async def test_errors_have_the_dialects_shape_and_keep_their_status(make_bench, upstream, stream):
    bench = await make_bench(advanced={"max_retries": 0})
    for given, expected, kind in (
        (429, 429, "rate_limit_error"),
        (422, 422, "invalid_request_error"),
        (500, 502, "api_error"),
    ):
        upstream.answers = [fails(given, "no luck")]
        status, body, headers = await ask(bench, stream=stream)
        assert (status, headers["x-should-retry"]) == (expected, "false")
        assert body == {
            "type": "error",
            "error": {"type": kind, "message": "no luck"},
            "request_id": None,
        }


async def test_a_stream_that_breaks_off_ends_with_an_error_event(make_bench, upstream):
    upstream.answers = [streams(chunk({"content": "one"}), broken=True)]
    bench = await make_bench()
    events = await listen(bench)
    assert told(events, "text") == ["one"]
    assert events[-1]["type"] == "error"
    assert "broke off" in events[-1]["error"]["message"]
    assert bench.session.calls[0].error_kind == "connection"


async def test_a_silent_stream_is_kept_alive_with_pings(make_bench, upstream, monkeypatch):
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.02)
    gate = asyncio.Event()
    upstream.answers = [streams(*WHOLE_STREAM, gate=gate)]
    bench = await make_bench()
    async with open_call(bench, stream=True) as response:
        raw = b""
        async with asyncio.timeout(5):
            while b"event: ping\n" not in raw:
                raw += await response.content.readany()
        gate.set()
        events = events_in(raw + await response.read())
    assert {"type": "ping"} in events
    assert events[-1]["type"] == "message_stop"


async def test_a_sample_that_ends_cancels_the_call_in_flight(make_bench, upstream):
    async def hangs(request, sent):
        await asyncio.sleep(60)

    upstream.answers = [hangs]
    bench = await make_bench()
    pending = asyncio.create_task(ask(bench))
    await until(lambda: upstream.in_flight == 1)
    bench.session.close()
    status, body, _ = await pending
    assert (status, body["type"]) == (410, "error")
    await asyncio.wait_for(upstream.broken_off.wait(), 5)
    assert [call.error_kind for call in bench.session.calls] == ["session_closed"]


async def test_a_scripted_model_answers_too(make_bench, tmp_path):
    (tmp_path / "m.toml").write_text('[[rules]]\nreply = "one two"\n')
    bench = await make_bench("scripted/m.toml")
    assert "".join(told(await listen(bench), "text")) == "one two"
