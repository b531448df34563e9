from __future__ import annotations

import asyncio

import pytest

from tests.evaluation.gateway.upstream import (
    DONE,
    HELLO,
    KEY,
    ROLLOUT,
    chunk,
    completion,
    fails,
    says,
    streams,
    until,
)


async def test_a_call_goes_to_the_configured_model_and_echoes_the_requested_name(
    make_bench, upstream
):
    bench = await make_bench()
    status, body, _ = await bench.post({"model": "osmosis-rollout", "top_k": 4, "x_new": [1]})
    assert status == 200
    assert body["model"] == "osmosis-rollout"
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "hi there"}
    sent = upstream.bodies[0]
    assert sent["model"] == "the-model"
    assert sent["top_k"] == 4
    assert sent["x_new"] == [1]
    assert upstream.keys == [f"Bearer {KEY}"]


async def test_each_call_leaves_a_record_with_usage_and_times(make_bench):
    bench = await make_bench()
    await bench.post()
    (call,) = bench.session.calls
    assert (call.route, call.model, call.http_status) == ("policy", "openai/the-model", 200)
    assert (call.prompt_tokens, call.completion_tokens) == (7, 3)
    assert (call.finish_reason, call.upstream_requests) == ("stop", 1)
    assert 0 < call.latency_s < 5
    assert call.queue_s == 0
    assert call.cost_usd is None
    assert call.scripted is False


async def test_tools_response_format_and_list_content_reach_the_provider_unchanged(
    make_bench, upstream
):
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    upstream.answers = [
        says(completion(None, message={"tool_calls": [call]}, finish_reason="tool_calls"))
    ]
    bench = await make_bench()
    sent = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "tools": [{"type": "function", "function": {"name": "add", "strict": True}}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
    }
    status, body, _ = await bench.post(sent)
    assert status == 200
    assert sent.items() <= upstream.bodies[0].items()
    message = body["choices"][0]["message"]
    assert message["content"] == "", "content is never null"
    assert message["tool_calls"] == [call]


async def test_an_assistant_message_without_content_is_accepted(make_bench, upstream):
    bench = await make_bench()
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    messages = [
        *HELLO,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]
    status, _, _ = await bench.post({"messages": messages})
    assert status == 200
    assert upstream.bodies[0]["messages"][1] == {**messages[1], "content": None}


async def test_native_reasoning_fields_come_back(make_bench, upstream):
    upstream.answers = [says(completion("x", message={"reasoning_content": "because"}))]
    bench = await make_bench()
    _, body, _ = await bench.post()
    assert body["choices"][0]["message"]["reasoning_content"] == "because"


@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_before_a_tool_call_are_put_back_when_the_client_drops_them(
    make_bench, upstream, stream
):
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    thought = {"tool_calls": [call], "reasoning_content": "two steps"}
    upstream.answers = [says(completion(None, message=thought, finish_reason="tool_calls"))]
    if stream:
        upstream.answers = [
            streams(
                chunk({"role": "assistant", "reasoning_content": "two "}),
                chunk({"reasoning_content": "steps"}),
                chunk({"tool_calls": [{"index": 0, **call}]}),
                chunk({}, "tool_calls"),
                DONE,
            )
        ]
    upstream.answers.append(says(completion()))
    bench = await make_bench()
    await bench.post(stream=stream)
    dropped = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "3"}
    await bench.post({"messages": [*HELLO, dropped, result]})
    assert upstream.bodies[1]["messages"][1] == {**dropped, "reasoning_content": "two steps"}
    own = {**dropped, "reasoning_content": "mine"}
    await bench.post({"messages": [*HELLO, own, result]})
    assert upstream.bodies[2]["messages"][1] == own


async def test_text_with_a_lone_surrogate_goes_through(make_bench, upstream):
    bench = await make_bench()
    raw = b'{"model": "m", "messages": [{"role": "user", "content": "a\\ud800b"}]}'
    status, _, _ = await bench.post(raw)
    assert status == 200
    assert upstream.bodies[0]["messages"][0]["content"] == "a\ud800b"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("n", True),
        ("api_key", "x"),
        ("api_base", "http://evil"),
        ("base_url", "http://evil"),
        ("callbacks", []),
        ("extra_headers", {}),
        ("litellm_params", {}),
        ("aws_region_name", "x"),
        ("azure_ad_token", "x"),
        ("vertex_project", "x"),
        ("extra_body", {"api_key": "x"}),
    ],
)
async def test_control_fields_are_refused_by_name_and_reach_nobody(
    make_bench, upstream, field, value
):
    bench = await make_bench()
    status, body, headers = await bench.post({field: value})
    assert status == 400
    name = "api_key" if field == "extra_body" else field
    assert f"'{name}'" in body["error"]["message"]
    assert body["detail"] == body["error"]["message"]
    assert headers["x-should-retry"] == "false"
    assert upstream.hits == 0
    (call,) = bench.session.calls
    assert (call.error_kind, call.upstream_requests) == ("bad_request", 0)


async def test_extra_body_is_merged(make_bench, upstream):
    bench = await make_bench()
    await bench.post({"extra_body": {"min_p": 0.1}, "n": 1})
    assert upstream.bodies[0]["min_p"] == 0.1
    assert "extra_body" not in upstream.bodies[0]


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"[1]", b'"x"', b'{"messages": [NaN]}'])
async def test_a_body_that_is_no_json_object_is_refused(make_bench, raw):
    bench = await make_bench()
    status, body, _ = await bench.post(raw)
    assert status == 400
    assert "JSON" in body["error"]["message"]


@pytest.mark.parametrize("messages", [None, [], "hi", [1], [{"content": "x"}]])
async def test_messages_are_checked(make_bench, messages):
    bench = await make_bench()
    status, body, _ = await bench.post({"messages": messages})
    assert status == 400
    assert "messages" in body["error"]["message"]


async def test_defaults_of_the_run_apply_only_where_the_client_set_none(make_bench, upstream):
    advanced = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 64, "model_seed": 11}
    bench = await make_bench(advanced=advanced)
    await bench.post()
    await bench.post({"temperature": 0, "top_p": 1, "max_completion_tokens": 5, "seed": 1})
    first, second = upstream.bodies
    assert (first["temperature"], first["top_p"], first["seed"]) == (0.5, 0.9, 11)
    assert first["max_tokens"] == 64
    assert (second["temperature"], second["top_p"], second["seed"]) == (0, 1, 1)
    assert "max_tokens" not in second


async def test_wrong_bearer_unknown_rollout_and_unknown_path(make_bench, upstream):
    bench = await make_bench()
    root = bench.gateway.root_url
    good = {"Authorization": f"Bearer {bench.session.api_key}"}
    chat = f"{bench.session.chat_completions_url}/chat/completions"
    for url, headers, expected in (
        (chat, {}, 401),
        (chat, {"Authorization": "Bearer wrong"}, 401),
        (f"{root}/v1/rollouts/{'f' * 32}/chat/completions", good, 404),
        (f"{root}/v1/judges/{ROLLOUT}/chat/completions", good, 404),
        (f"{root}/v1/rollouts/{ROLLOUT}/models", good, 404),
        (f"{root}/", good, 404),
    ):
        async with bench.http.post(url, json={}, headers=headers) as response:
            body = await response.json()
            assert (response.status, url) == (expected, url)
            assert body["error"]["message"] == body["detail"]
    async with bench.http.get(chat, headers=good) as response:
        assert response.status == 405
    assert upstream.hits == 0
    assert bench.session.calls == []


async def hanging_call(make_bench, upstream):
    """A gateway, and a call of it that the provider has and does not answer."""

    async def hangs(request, sent):
        await asyncio.sleep(60)

    upstream.answers = [hangs]
    bench = await make_bench()
    pending = asyncio.create_task(bench.post())
    await until(lambda: upstream.in_flight == 1)
    return bench, pending


async def test_a_closed_session_answers_410_and_ends_the_call_in_flight(make_bench, upstream):
    bench, pending = await hanging_call(make_bench, upstream)
    assert bench.session.calls_in_flight == 1
    bench.session.close()
    status, body, _ = await pending
    assert status == 410
    assert body["error"]["code"] == "session_closed"
    await asyncio.wait_for(upstream.broken_off.wait(), 5)
    assert [c.error_kind for c in bench.session.calls] == ["session_closed"]
    status, _, _ = await bench.post()
    assert status == 410
    assert upstream.hits == 1


async def test_a_call_that_is_ended_is_waited_for_until_it_is_recorded(make_bench, upstream):
    bench, pending = await hanging_call(make_bench, upstream)
    await bench.session.calls_ended(0.01)
    assert bench.session.calls_in_flight == 1, "as long as it was told, and no longer"
    bench.session.close()
    async with asyncio.timeout(5):
        await bench.session.calls_ended(60)
    assert [c.error_kind for c in bench.session.calls] == ["session_closed"]
    await pending


async def test_a_client_that_hangs_up_cancels_the_upstream_call_and_is_recorded(
    make_bench, upstream
):
    bench, pending = await hanging_call(make_bench, upstream)
    pending.cancel()
    await asyncio.wait_for(upstream.broken_off.wait(), 5)
    await until(lambda: bool(bench.session.calls))
    (call,) = bench.session.calls
    assert (call.error_kind, call.http_status) == ("client_disconnected", 499)
    assert call.upstream_requests == 1


async def test_calls_are_listed_in_the_order_in_which_they_were_made(make_bench, upstream):
    first_may_end = asyncio.Event()

    async def slow(request, sent):
        await first_may_end.wait()
        return await says(completion("slow", finish_reason="length"))(request, sent)

    upstream.answers = [slow, says(completion())]
    bench = await make_bench()
    first = asyncio.create_task(bench.post())
    await until(lambda: upstream.in_flight == 1)
    await bench.post()
    first_may_end.set()
    await first
    assert [call.finish_reason for call in bench.session.calls] == ["length", "stop"]


async def test_a_4xx_is_kept_and_secrets_in_it_are_redacted(make_bench, upstream):
    upstream.answers = [fails(422, f"bad field, key {KEY}")]
    bench = await make_bench()
    status, body, headers = await bench.post()
    assert status == 422
    assert headers["x-should-retry"] == "false"
    assert body["error"]["type"] == "t"
    assert KEY not in str(body)
    assert "[REDACTED]" in body["detail"]
    (call,) = bench.session.calls
    assert KEY not in call.model_dump_json()
    assert (call.error_kind, call.http_status) == ("invalid_request", 422)


async def test_a_5xx_becomes_502_after_the_retries_and_hits_equal_the_record(make_bench, upstream):
    upstream.answers = [fails(500)]
    bench = await make_bench(advanced={"max_retries": 2})
    status, _, _ = await bench.post()
    assert status == 502
    (call,) = bench.session.calls
    assert call.error_kind == "server_error"
    assert call.upstream_requests == upstream.hits == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_4xx_is_not_repeated(make_bench, upstream, status):
    upstream.answers = [fails(status)]
    bench = await make_bench()
    assert (await bench.post())[0] == status
    assert upstream.hits == 1


@pytest.mark.parametrize("before", [1990, 1995, 1999])
async def test_a_long_error_is_cut_after_redaction_never_through_a_key(
    make_bench, upstream, before
):
    upstream.answers = [says({"error": {"message": "x" * before + KEY + " is wrong"}}, 401)]
    bench = await make_bench()
    status, _, body = await bench.post()
    assert status == 401
    told = str(body) + str(bench.session.calls[0].error_message)
    assert KEY[:6] not in told


async def test_a_spent_quota_is_not_repeated(make_bench, upstream):
    error = {"message": "quota", "type": "insufficient_quota", "code": "insufficient_quota"}
    upstream.answers = [says({"error": error}, 429)]
    bench = await make_bench()
    assert (await bench.post())[0] == 429
    assert upstream.hits == 1


async def test_an_answer_that_is_no_completion_is_502(make_bench, upstream):
    bench = await make_bench(advanced={"max_retries": 0})
    for answer in (says({"choices": []}), says([1]), says({"ok": True})):
        upstream.answers = [answer]
        assert (await bench.post())[0] == 502
    upstream.answers = [says({"error": {"message": "overloaded", "code": 429}})]
    assert (await bench.post())[0] == 429


async def test_upstream_hits_equal_the_recorded_requests_under_random_failure(make_bench, upstream):
    count = 0

    async def flaky(request, sent):
        nonlocal count
        count += 1
        status = (200, 500, 200, 429, 200, 503, 200)[count % 7]
        answer = says(completion()) if status == 200 else fails(status)
        return await answer(request, sent)

    upstream.answers = [flaky]
    bench = await make_bench(advanced={"max_retries": 8})
    results = await asyncio.gather(*(bench.post() for _ in range(60)))
    assert {status for status, _, _ in results} == {200}
    calls = bench.session.calls
    assert len(calls) == 60
    assert sum(call.upstream_requests for call in calls) == upstream.hits > 60
    assert sum(call.queue_s for call in calls) > 0


async def test_the_judge_has_its_own_link_and_the_same_limiter(make_bench, upstream):
    bench = await make_bench(
        advanced={"judge_model": "openai/judge", "temperature": 0.3, "max_concurrent_calls": 2}
    )
    assert bench.session.judge_api_key != bench.session.api_key
    status, _, _ = await bench.post(judge=True)
    assert status == 200
    assert upstream.bodies[0]["model"] == "judge"
    assert "temperature" not in upstream.bodies[0], "the defaults are the policy's"
    assert bench.session.calls[0].route == "judge"

    async def slow(request, sent):
        await asyncio.sleep(0.02)
        return await says(completion())(request, sent)

    upstream.answers = [slow]
    await asyncio.gather(*(bench.post(judge=bool(i % 2)) for i in range(8)))
    assert upstream.most_in_flight == 2


async def test_policy_and_judge_bearers_are_not_interchangeable(make_bench):
    bench = await make_bench(advanced={"judge_model": "openai/judge"})
    url = f"{bench.session.judge_completions_url}/chat/completions"
    headers = {"Authorization": f"Bearer {bench.session.api_key}"}
    async with bench.http.post(url, json={}, headers=headers) as response:
        assert response.status == 401


async def test_a_large_request_is_accepted(make_bench, upstream):
    bench = await make_bench()
    text = "x" * 3_000_000
    status, _, _ = await bench.post({"messages": [{"role": "user", "content": text}]})
    assert status == 200
    assert upstream.bodies[0]["messages"][0]["content"] == text


async def test_many_sessions_come_and_go_without_being_remembered(make_bench, monkeypatch):
    from osmosis.evaluation.gateway import app

    monkeypatch.setattr(app, "CLOSED_SESSIONS_KEPT", 3)
    bench = await make_bench()
    for index in range(10):
        bench.gateway.open_session(f"{index:032x}").close()
    assert len(bench.gateway._closed) == 3
    assert len(bench.gateway._sessions) == 1
