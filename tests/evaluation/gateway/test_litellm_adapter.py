from __future__ import annotations

import asyncio
import importlib
import os

import orjson
import pytest
from aiohttp import web

from osmosis.evaluation.gateway.litellm_adapter import isolate_environment
from osmosis.wire.errors import RunFailed
from tests.evaluation.gateway.upstream import HELLO, until
from tests.evaluation.silence import twenty_silent_minutes

KEY = "sk-ant-canary"
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
THOUGHT = {"type": "thinking", "thinking": "a guest", "signature": "sig"}


class Anthropic:
    """The messages API, as far as these tests need it."""

    def __init__(self):
        self.bodies = []
        self.keys = []
        self.answers = []
        self.thinking: asyncio.Event | None = None
        self.broken_off = asyncio.Event()

    async def messages(self, request):
        self.bodies.append(await request.json())
        self.keys.append(request.headers.get("x-api-key"))
        if self.thinking is not None:
            try:
                await self.thinking.wait()
            except asyncio.CancelledError:
                self.broken_off.set()
                raise
        if self.answers:
            status, message = self.answers.pop(0)
            error = {"type": "error", "error": {"type": "some_error", "message": message}}
            return web.json_response(error, status=status)
        content = [{"type": "text", "text": "hello to you"}]
        if "thinking" in self.bodies[-1]:
            content.insert(0, THOUGHT)
        if "tools" in self.bodies[-1]:
            content = [{"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2}}]
        return web.json_response(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": content,
                "stop_reason": "tool_use" if "tools" in self.bodies[-1] else "end_turn",
                "usage": {
                    "input_tokens": 10,
                    "output_tokens": 4,
                    "cache_read_input_tokens": 6,
                    "cache_creation_input_tokens": 3,
                },
            }
        )


@pytest.fixture
async def anthropic():
    fake = Anthropic()
    app = web.Application()
    app.router.add_post("/v1/messages", fake.messages)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.base_url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    yield fake
    await runner.cleanup()


@pytest.fixture
def make_claude(make_bench, anthropic, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())

    async def make(name="ANTHROPIC_API_BASE", **more):
        more.setdefault("secrets", {"ANTHROPIC_API_KEY": KEY})
        return await make_bench(
            "anthropic/claude-sonnet-4-5", env={name: anthropic.base_url}, **more
        )

    return make


@pytest.mark.parametrize("name", ["ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"])
async def test_anthropic_with_an_address_of_ones_own(make_claude, anthropic, name):
    bench = await make_claude(name)
    await bench.gateway.preflight()
    status, body, _ = await bench.post({"temperature": 0.5, "max_tokens": 9})
    assert status == 200, body
    assert body["choices"][0]["message"]["content"] == "hello to you"
    assert body["model"] == "whatever"
    assert anthropic.bodies[1]["temperature"] == 0.5
    assert anthropic.bodies[1]["max_tokens"] == 9
    assert set(anthropic.keys) == {KEY}
    (call,) = bench.session.calls
    assert (call.prompt_tokens, call.completion_tokens, call.cached_tokens) == (19, 4, 6)
    assert call.finish_reason == "stop"
    assert call.cost_usd is None, "the price at another address is not known"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_of_the_messages_dialect_gets_claudes_own_thoughts(
    make_claude, anthropic, stream
):
    bench = await make_claude()
    url = f"{bench.session.chat_completions_url}/v1/messages"
    headers = {"x-api-key": bench.session.api_key}
    asked = {
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            *HELLO,
            {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "hello"}]},
            *HELLO,
        ],
        "stream": stream,
    }
    async with bench.http.post(url, json=asked, headers=headers) as response:
        raw = await response.read()
    sent = anthropic.bodies[0]
    assert sent["thinking"] == asked["thinking"]
    assert THOUGHT in sent["messages"][1]["content"]
    if stream:
        assert b'"signature_delta","signature":"sig"' in raw
        return
    answer = orjson.loads(raw)
    assert answer["content"] == [THOUGHT, {"type": "text", "text": "hello to you"}]
    usage = answer["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (10, 6)
    (call,) = bench.session.calls
    assert (call.prompt_tokens, call.cached_tokens, call.cache_write_tokens) == (19, 6, 3)


async def test_tools_and_a_streaming_client(make_claude, anthropic):
    bench = await make_claude()
    _, raw, _ = await bench.post({"tools": [ADD], "stream": True, "messages": HELLO})
    lines = [line[6:] for line in raw.decode().splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    chunks = [orjson.loads(line) for line in lines[:-1]]
    deltas = [c["choices"][0]["delta"] for c in chunks if c["choices"]]
    (call,) = next(d["tool_calls"] for d in deltas if d.get("tool_calls"))
    assert call["function"]["name"] == "add"
    assert orjson.loads(call["function"]["arguments"]) == {"a": 2}
    assert chunks[-1]["usage"]["completion_tokens"] == 4
    assert "stream" not in anthropic.bodies[0]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_that_never_answers_is_let_go_with_the_sample(
    make_claude, anthropic, stream
):
    anthropic.thinking = asyncio.Event()
    bench = await make_claude()
    call = asyncio.create_task(bench.post(stream=stream))
    await until(lambda: len(anthropic.bodies) == 1, within_s=30)
    bench.session.close()
    async with asyncio.timeout(5):
        await call
        await anthropic.broken_off.wait()
    assert bench.session.calls[0].error_kind == "session_closed"
    assert len(anthropic.bodies) == 1


async def test_one_retry_layer_and_hits_equal_the_record(make_claude, anthropic):
    bench = await make_claude(advanced={"max_retries": 2})
    anthropic.answers = [(529, "overloaded"), (500, "oops"), (429, "slow"), (500, "never")]
    system = {"role": "system", "content": "be brief"}
    status, _, headers = await bench.post({"messages": [system, *HELLO]})
    assert status == 429
    assert anthropic.bodies[0]["system"]
    assert anthropic.bodies[0] == anthropic.bodies[2]
    assert headers["x-should-retry"] == "false"
    (call,) = bench.session.calls
    assert call.upstream_requests == len(anthropic.bodies) == 3


async def test_an_overload_inside_a_good_status_is_asked_again_also_for_a_streaming_client(
    make_claude, anthropic
):
    """Nothing streams upstream, so no begun stream can end in an ``overloaded_error``."""
    bench = await make_claude(advanced={"max_retries": 1})
    anthropic.answers = [(200, "Overloaded")]
    status, raw, _ = await bench.post({"stream": True, "messages": HELLO})
    assert status == 200
    assert b"hello to you" in raw and b"[DONE]" in raw and b"error" not in raw
    (call,) = bench.session.calls
    assert call.upstream_requests == len(anthropic.bodies) == 2


async def test_what_a_model_can_do_is_looked_up_once(make_claude, monkeypatch):
    bench = await make_claude()
    await bench.post()
    utils = importlib.import_module("litellm.utils")
    first, second = (utils.get_model_info_helper("claude-sonnet-4-5", "anthropic") for _ in "12")
    assert first == second and first is not second, "whoever gets one may change it"
    looked_up = []
    monkeypatch.setattr(utils, "get_potential_model_names", lambda *_, **__: looked_up.append(1))
    assert (await bench.post())[0] == 200
    assert looked_up == []


async def test_twenty_silent_minutes_are_waited_for(make_claude, anthropic):
    bench = await make_claude(advanced={"max_retries": 0})
    await bench.post()  # the first call loads LiteLLM
    anthropic.thinking = asyncio.Event()
    call = asyncio.create_task(bench.post())
    await until(lambda: len(anthropic.bodies) == 2)
    async with twenty_silent_minutes(call):
        anthropic.thinking.set()
        status, body, _ = await call
    assert status == 200, body
    assert len(anthropic.bodies) == 2, "asked once, and never again"


async def test_errors_keep_their_kind_and_hide_the_key(make_claude, anthropic):
    bench = await make_claude(advanced={"max_retries": 0})
    anthropic.answers = [(401, f"invalid key {KEY}")]
    with pytest.raises(RunFailed) as caught:
        await bench.gateway.preflight()
    assert caught.value.kind == "model_key_rejected"
    assert KEY not in caught.value.message
    anthropic.answers = [(400, "max_tokens: too large"), (404, "model: claude-x")]
    assert (await bench.post())[0] == 400
    assert (await bench.post())[0] == 404
    assert [c.error_kind for c in bench.session.calls] == ["invalid_request", "not_found"]


async def test_nobody_at_the_address_is_unreachable(make_bench, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    bench = await make_bench(
        "anthropic/claude-sonnet-4-5", env={"ANTHROPIC_API_BASE": "http://127.0.0.1:9"}
    )
    with pytest.raises(RunFailed) as caught:
        await bench.gateway.preflight()
    assert caught.value.kind == "model_unreachable"


def test_the_process_keeps_only_the_provider_variables_of_the_run(monkeypatch):
    monkeypatch.setattr(
        os, "environ", {"OPENAI_API_KEY": "server", "AWS_PROFILE": "x", "PATH": "p"}
    )
    isolate_environment({"AWS_REGION": "eu", "OTHER": "y", "MY_API_KEY": "mine"})
    assert "OPENAI_API_KEY" not in os.environ
    assert "AWS_PROFILE" not in os.environ
    assert os.environ["AWS_REGION"] == "eu"
    assert os.environ["MY_API_KEY"] == "mine"
    assert os.environ["PATH"] == "p"
    assert "OTHER" not in os.environ
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"


async def test_litellm_prices_and_logs_nothing_of_its_own(make_claude, monkeypatch):
    bench = await make_claude()
    await bench.gateway.preflight()
    litellm = importlib.import_module("litellm")
    core = importlib.import_module("litellm.litellm_core_utils.litellm_logging")
    asked = []
    monkeypatch.setattr(litellm, "response_cost_calculator", lambda **_: asked.append("price"))
    monkeypatch.setattr(
        core.Logging, "_build_standard_logging_payload", lambda *_, **__: asked.append("log")
    )
    for _ in range(2):  # what the first would leave for later happens during the second
        status, _, _ = await bench.post()
        assert status == 200 and asked == []
    assert bench.session.calls[-1].prompt_tokens == 19
