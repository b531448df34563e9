"""Upstream hits, counted where the provider counts them: one layer retries, whoever calls."""

from __future__ import annotations

import asyncio
import re

import openai
import pytest

from osmosis.evaluation import limit_log
from tests.evaluation.gateway.upstream import completion, fails, says, streams, until


async def breaks(request, sent):
    request.transport.abort()
    return await says(completion())(request, sent)


PASSING_TROUBLE = {
    "429": (fails(429), openai.RateLimitError),
    "408": (fails(408), openai.APIStatusError),
    "500": (fails(500), openai.InternalServerError),
    "503": (fails(503), openai.InternalServerError),
    "529": (fails(529, headers={"x-should-retry": "true"}), openai.InternalServerError),
    "409 to be repeated": (
        fails(409, headers={"x-should-retry": "true"}),
        openai.ConflictError,
    ),
    "a broken connection": (breaks, openai.InternalServerError),
}


@pytest.fixture
async def make_client():
    opened = []

    def make(bench, **more):
        client = openai.AsyncOpenAI(
            base_url=bench.session.chat_completions_url, api_key=bench.session.api_key, **more
        )
        opened.append(client)
        return client

    yield make
    for client in opened:
        await client.close()


async def ask(client, **more):
    messages = [{"role": "user", "content": "hello"}]
    return await client.chat.completions.create(model="m", messages=messages, **more)


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("trouble", PASSING_TROUBLE)
async def test_a_client_that_retries_by_itself_adds_no_request(
    make_bench, make_client, upstream, trouble, retries
):
    answer, error = PASSING_TROUBLE[trouble]
    upstream.answers = [answer]
    bench = await make_bench(advanced={"max_retries": retries})
    with pytest.raises(error):
        await ask(make_client(bench, max_retries=5))
    (call,) = bench.session.calls
    assert upstream.hits == call.upstream_requests == retries + 1
    assert len(call.retries or []) == retries


async def test_a_stream_that_fails_before_its_first_byte_is_retried_by_us_alone(
    make_bench, make_client, upstream
):
    upstream.answers = [fails(503)]
    bench = await make_bench(advanced={"max_retries": 1})
    with pytest.raises(openai.InternalServerError):
        await ask(make_client(bench, max_retries=5), stream=True)
    assert upstream.hits == 2


async def test_each_retry_is_in_the_record_with_its_reason_and_wait(
    make_bench, make_client, upstream
):
    upstream.answers = [
        fails(429, headers={"retry-after-ms": "80"}),
        breaks,
        fails(503),
        says(completion()),
    ]
    bench = await make_bench()
    answer = await ask(make_client(bench))
    assert answer.choices[0].message.content == "hi there"
    (call,) = bench.session.calls
    assert [(r.kind, r.http_status) for r in call.retries] == [
        ("rate_limit", 429),
        ("connection", None),
        (call.retries[2].kind, 503),
    ]
    assert call.retries[0].waited_s >= 0.08
    assert call.queue_s >= sum(retry.waited_s for retry in call.retries) * 0.9
    assert call.latency_s < call.queue_s + 1
    assert call.http_status == 200
    assert '"retries":[{' in call.model_dump_json()


async def test_a_call_without_retries_says_nothing_of_them(make_bench, upstream):
    bench = await make_bench()
    await bench.post()
    text = bench.session.calls[0].model_dump_json(exclude_none=True)
    assert "retries" not in text
    assert "ended_in_queue" not in text


async def test_an_endpoint_that_knows_no_stream_options_is_asked_without_even_if_none_may_retry(
    make_bench, make_client, upstream
):
    upstream.answers = [fails(400, "unknown field stream_options"), streams(b"data: [DONE]\n\n")]
    bench = await make_bench(advanced={"max_retries": 0})
    await ask(make_client(bench), stream=True)
    assert upstream.hits == 2


async def test_the_checking_call_is_not_repeated_where_no_retry_is_allowed(make_bench, upstream):
    upstream.answers = [fails(429)]
    bench = await make_bench(advanced={"max_retries": 0})
    with pytest.raises(Exception, match="rate limit"):
        await bench.gateway.preflight()
    assert upstream.hits == 1


async def test_the_log_tells_a_burst_of_refusals_in_one_line(make_bench, upstream, monkeypatch):
    monkeypatch.setattr(limit_log, "GATHER_S", 0.05)
    held = 0

    async def takes_four(request, sent):
        nonlocal held
        held += 1
        try:
            over = held > 4
            await asyncio.sleep(0.01)
            return await (fails(429) if over else says(completion()))(request, sent)
        finally:
            held -= 1

    upstream.answers = [takes_four]
    bench = await make_bench()
    results = await asyncio.gather(*(bench.post() for _ in range(80)))
    assert {status for status, _, _ in results} == {200}
    await until(lambda: bool(bench.log.lines))
    level, line = bench.log.lines[0]
    assert level == "warning"
    assert re.match(r"The provider openai answers 429 ×\d+: \d+ -> \d+ calls at once\. ", line)
    assert len(bench.log.lines) == 1
    await bench.gateway.close()
    assert len(bench.log.lines) <= 3
    assert "In all, the provider openai failed" in bench.log.lines[-1][1]


async def test_a_sample_that_ends_while_its_call_queues_says_so_in_the_record(make_bench, upstream):
    async def hangs(request, sent):
        await asyncio.sleep(60)

    upstream.answers = [hangs]
    bench = await make_bench(advanced={"max_concurrent_calls": 1})
    calls = [asyncio.create_task(bench.post()) for _ in range(2)]
    await until(lambda: upstream.in_flight == 1)
    await asyncio.sleep(0.05)
    bench.session.close()
    answers = await asyncio.gather(*calls)
    assert [status for status, _, _ in answers] == [410, 410]
    sent, queued = sorted(bench.session.calls, key=lambda call: -call.upstream_requests)
    assert sent.ended_in_queue is None
    assert queued.ended_in_queue
    assert "provider's limit" in queued.error_message
    assert queued.queue_s > 0.04
    assert upstream.hits == 1
