"""The Responses dialect, as OpenAI's own client speaks it."""

from __future__ import annotations

import asyncio

import openai
import orjson
import pytest

from osmosis.evaluation.gateway import event_stream
from tests.evaluation.gateway.upstream import (
    DONE,
    WHOLE_STREAM,
    chunk,
    completion,
    fails,
    says,
    streams,
    until,
)

ADD = {
    "type": "function",
    "name": "add",
    "description": "Adds.",
    "parameters": {"type": "object", "properties": {"a": {"type": "number"}}},
    "strict": True,
}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
CALL_2 = {"id": "c2", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}


@pytest.fixture
async def speak(make_bench):
    """A bench, and an ``AsyncOpenAI`` client whose base URL is its session's."""
    clients = []

    async def make(*given, **more):
        bench = await make_bench(*given, **more)
        session = bench.session
        client = openai.AsyncOpenAI(base_url=session.chat_completions_url, api_key=session.api_key)
        clients.append(client)
        return bench, client.responses

    yield make
    for client in clients:
        await client.close()


async def events_of(stream):
    return [event async for event in stream]


async def test_a_call_is_answered_and_recorded_as_a_chat_completion_is(speak, upstream):
    usage = {
        "prompt_tokens": 20,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    upstream.answers = [says(completion("hi there", usage=usage))]
    bench, responses = await speak(advanced={"temperature": 0.5})
    answer = await responses.create(
        model="gpt-x", instructions="Be kind.", input="hello", max_output_tokens=50, top_p=0.9
    )
    assert answer.output_text == "hi there"
    assert (answer.status, answer.model, answer.instructions) == ("completed", "gpt-x", "Be kind.")
    assert answer.usage.model_dump(exclude_none=True) == {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 3},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 29,
    }
    assert upstream.bodies[0] == {
        "model": "the-model",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hello"},
        ],
        "max_tokens": 50,
        "top_p": 0.9,
        "temperature": 0.5,
    }
    (call,) = bench.session.calls
    assert (call.http_status, call.finish_reason, call.upstream_requests) == (200, "stop", 1)
    assert (call.prompt_tokens, call.completion_tokens, call.cached_tokens) == (20, 9, 12)
    assert (call.cache_write_tokens, call.reasoning_tokens) == (3, 5)


async def test_tools_go_there_and_back_with_what_the_model_answered(speak, upstream):
    first = completion(
        "I add.",
        message={"tool_calls": [CALL, CALL_2], "reasoning_content": "two numbers"},
        finish_reason="tool_calls",
    )
    upstream.answers = [says(first), says(completion("3"))]
    _, responses = await speak()
    asked = [{"role": "user", "content": "1 + 2?"}]
    answer = await responses.create(
        model="m",
        input=asked,
        tools=[ADD],
        tool_choice={"type": "function", "name": "add"},
        parallel_tool_calls=True,
    )
    assert [item.type for item in answer.output] == [
        "reasoning", "message", "function_call", "function_call",
    ]  # fmt: skip
    assert answer.output[0].content[0].text == "two numbers"
    assert (answer.output[2].call_id, answer.output[2].arguments) == ("c1", '{"a": 1}')
    sent = upstream.bodies[0]
    function = {key: ADD[key] for key in ("name", "description", "parameters", "strict")}
    assert sent["tools"] == [{"type": "function", "function": function}]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "add"}}
    assert sent["parallel_tool_calls"] is True

    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    results = [
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "2"}, picture],
        },
    ]
    final = await responses.create(model="m", input=[*asked, *answer.output, *results])
    assert final.output_text == "3"
    messages = upstream.bodies[1]["messages"]
    assert messages[1] == {
        "role": "assistant",
        "content": "I add.",
        "tool_calls": [CALL, CALL_2],
        "reasoning_content": "two numbers",
    }
    assert messages[2] == {"role": "tool", "tool_call_id": "c1", "content": "1"}
    assert messages[3] == {"role": "tool", "tool_call_id": "c2", "content": "2"}
    assert messages[4]["role"] == "user"
    assert messages[4]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,AA=="},
    }


async def test_other_shapes_of_a_request_find_their_place_in_a_chat_completion(speak, upstream):
    _, responses = await speak()
    schema = {"type": "object", "properties": {}}
    await responses.create(
        model="m",
        instructions="A.",
        input=[
            {"type": "message", "role": "developer", "content": "B."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "look"},
                    {"type": "input_image", "image_url": "http://x/y.png", "detail": "low"},
                    {"type": "input_file", "filename": "f.pdf", "file_data": "data:x"},
                ],
            },
            {"role": "assistant", "content": [{"type": "output_text", "text": "seen"}]},
            {"role": "user", "content": [{"type": "input_text", "text": "and?"}]},
        ],
        reasoning={"effort": "low", "summary": "auto"},
        text={
            "format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True},
            "verbosity": "low",
        },
        tools=[ADD, {**ADD, "name": "sub"}],
        tool_choice={
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "add"}],
        },
        include=["reasoning.encrypted_content"],
        store=False,
        metadata={"a": "b"},
        extra_body={"top_k": 4, "stop": ["END"]},
    )
    sent = upstream.bodies[0]
    assert sent["messages"] == [
        {"role": "system", "content": "A.\n\nB."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "http://x/y.png", "detail": "low"}},
                {"type": "file", "file": {"filename": "f.pdf", "file_data": "data:x"}},
            ],
        },
        {"role": "assistant", "content": "seen"},
        {"role": "user", "content": "and?"},
    ]
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": schema, "strict": True},
    }
    assert (sent["reasoning_effort"], sent["verbosity"]) == ("low", "low")
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["add"]
    assert sent["tool_choice"] == "required"
    assert (sent["top_k"], sent["stop"]) == (4, ["END"])
    assert not {"include", "store", "metadata", "input", "text", "reasoning"} & sent.keys()


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
async def test_an_answer_cut_short_is_incomplete(speak, upstream, finish, reason):
    upstream.answers = [says(completion("one", finish_reason=finish))]
    _, responses = await speak()
    answer = await responses.create(model="m", input="hello")
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", reason)


async def test_a_stream_tells_the_events_in_their_order_as_they_come(speak, upstream):
    gate = asyncio.Event()
    upstream.answers = [streams(*WHOLE_STREAM, gate=gate)]
    bench, responses = await speak()
    stream = await responses.create(model="m", input="hello", stream=True)
    seen = []
    async for event in stream:
        seen.append(event)
        if event.type == "response.output_text.delta":
            gate.set()  # the first piece is here before the provider says the second
    assert [event.type for event in seen] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in seen] == list(range(10))
    assert [event.delta for event in seen[4:6]] == ["one", " two"]
    assert seen[6].text == "one two"
    assert seen[-1].response.output_text == "one two"
    assert seen[-1].response.usage.total_tokens == 7
    assert seen[0].response.id == seen[-1].response.id
    (call,) = bench.session.calls
    assert (call.streamed, call.prompt_tokens, call.finish_reason) == (True, 5, "stop")


async def test_a_streamed_thought_and_mixed_pieces_of_two_calls_become_whole_items(speak, upstream):
    def piece(index, **function):
        more = {"id": f"c{index}", "type": "function"} if "name" in function else {}
        return chunk({"tool_calls": [{"index": index, **more, "function": function}]})

    upstream.answers = [
        streams(
            chunk({"role": "assistant", "reasoning_content": "hm"}),
            piece(0, name="add", arguments='{"a"'),
            piece(1, name="add", arguments='{"a"'),
            piece(0, arguments=": 1}"),
            piece(1, arguments=": 2}"),
            chunk({}, "tool_calls"),
            DONE,
        )
    ]
    _, responses = await speak()
    async with responses.stream(model="m", input="1 + 2?", tools=[ADD]) as stream:
        await events_of(stream)
        answer = await stream.get_final_response()
    assert [item.type for item in answer.output] == ["reasoning", "function_call", "function_call"]
    assert [item.arguments for item in answer.output[1:]] == ['{"a": 1}', '{"a": 2}']
    assert [item.call_id for item in answer.output[1:]] == ["c0", "c1"]
    assert answer.usage is None, "the provider counted nothing"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"store": True}, "store"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"truncation": "auto"}, "truncation"),
        ({"tools": [{"type": "web_search"}]}, "web_search"),
        ({"tools": [ADD], "tool_choice": {"type": "file_search"}}, "file_search"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "item_reference"),
        ({"input": [{"type": "computer_call"}]}, "computer_call"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
         "content[0]"),
        ({"input": []}, "input"),
        ({"include": 3}, "include"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "role"),
        ({"text": {"format": {"type": "grammar"}}}, "grammar"),
        ({"extra_body": {"api_key": "x"}}, "api_key"),
        ({"extra_body": {"n": 2}}, "'n'"),
    ],
)  # fmt: skip
async def test_what_is_not_offered_is_refused_by_name_and_reaches_nobody(
    speak, upstream, more, field
):
    bench, responses = await speak()
    with pytest.raises(openai.BadRequestError) as caught:
        await responses.create(**{"model": "m", "input": "hello", **more})
    assert field in caught.value.body["message"]
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert upstream.hits == 0
    assert [call.error_kind for call in bench.session.calls] == ["bad_request"]


async def test_errors_keep_their_status_and_come_once(speak, upstream):
    bench, responses = await speak(advanced={"max_retries": 1})
    upstream.answers = [fails(500, "boom")]
    for stream in (False, True):
        with pytest.raises(openai.APIStatusError) as caught:
            await responses.create(model="m", input="hello", stream=stream)
        assert caught.value.status_code == 502
        assert caught.value.body["message"] == "boom"
    assert upstream.hits == 4, "one retry each, all of it ours"
    upstream.answers = [fails(422, "bad field")]
    with pytest.raises(openai.UnprocessableEntityError):
        await responses.create(model="m", input="hello")
    bench.session.close()
    with pytest.raises(openai.APIStatusError) as caught:
        await responses.create(model="m", input="hello")
    assert caught.value.status_code == 410


async def test_a_stream_that_breaks_off_ends_as_failed_and_raises(speak, upstream):
    upstream.answers = [streams(chunk({"content": "one"}), broken=True)]
    bench, responses = await speak()
    seen = []
    with pytest.raises(openai.APIError, match="broke off"):
        async for event in await responses.create(model="m", input="hello", stream=True):
            seen.append(event)
    assert seen[-1].type == "response.failed"
    assert seen[-1].response.output[0].content[0].text == "one"
    assert "broke off" in seen[-1].response.error.message
    assert bench.session.calls[0].error_kind == "connection"


async def test_a_silent_stream_is_kept_alive(speak, upstream, monkeypatch):
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.02)
    gate = asyncio.Event()
    upstream.answers = [streams(*WHOLE_STREAM, gate=gate)]
    bench, _ = await speak()
    url = f"{bench.session.chat_completions_url}/responses"
    headers = {"Authorization": f"Bearer {bench.session.api_key}"}
    body = orjson.dumps({"model": "m", "input": "hello", "stream": True})
    async with bench.http.post(url, data=body, headers=headers) as response:
        raw = b""
        async with asyncio.timeout(5):
            while b": ping\n\n" not in raw:
                raw += await response.content.readany()
            gate.set()
            raw += await response.read()
    assert b"event: response.completed" in raw


async def test_a_client_that_hangs_up_cancels_the_upstream_call(speak, upstream):
    async def hangs(request, sent):
        await asyncio.sleep(60)

    upstream.answers = [hangs]
    bench, responses = await speak()
    pending = asyncio.create_task(responses.create(model="m", input="hello"))
    await until(lambda: upstream.in_flight == 1)
    pending.cancel()
    await asyncio.wait_for(upstream.broken_off.wait(), 5)
    await until(lambda: bool(bench.session.calls))
    assert bench.session.calls[0].error_kind == "client_disconnected"


async def test_a_scripted_model_and_the_judge_answer_too(speak, upstream, tmp_path):
    (tmp_path / "m.toml").write_text('[[rules]]\nreply = "one two"\n')
    bench, responses = await speak("scripted/m.toml", advanced={"judge_model": "openai/judge"})
    async with responses.stream(model="m", input="hello") as stream:
        await events_of(stream)
        assert (await stream.get_final_response()).output_text == "one two"
    session = bench.session
    async with openai.AsyncOpenAI(
        base_url=session.judge_completions_url, api_key=session.judge_api_key
    ) as judge:
        answer = await judge.responses.create(model="m", input="hello")
    assert answer.output_text == "hi there"
    assert [call.route for call in session.calls] == ["policy", "judge"]
