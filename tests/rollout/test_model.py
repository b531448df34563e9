from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest
from aiohttp import web

from osmosis.rollout import ModelCallError, call_judge, call_model
from osmosis.rollout.model import close_sessions
from tests.rollout.driver import echo, reward_one


class Model:
    """An OpenAI-compatible endpoint that answers what it is told to and remembers requests."""

    def __init__(self):
        self.requests: list[dict] = []
        self.message: dict = {"role": "assistant", "content": "hello"}
        self.answer: web.Response | None = None
        self.answering: Callable | None = None
        self.hold: asyncio.Event | None = None
        self.gone = asyncio.Event()
        self.connections: set = set()
        self.url = ""

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.connections.add(request.transport)
        self.requests.append(
            {
                "path": request.path,
                "authorization": request.headers.get("Authorization"),
                **await request.json(),
            }
        )
        if self.hold is not None:
            try:
                await self.hold.wait()
            except asyncio.CancelledError:
                self.gone.set()
                raise
        if self.answering is not None:
            return await self.answering(request)
        if self.answer is not None:
            return self.answer
        return web.json_response({"choices": [{"message": self.message}]})


@pytest.fixture
async def model():
    model = Model()
    app = web.Application()
    app.router.add_post("/{base:.*}/chat/completions", model.chat)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    model.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield model
    await close_sessions()
    await runner.cleanup()


def asking(**params):
    async def run(ctx):
        return [*ctx.prompt, await call_model(ctx.prompt, **params)]

    return run


async def test_a_call_goes_to_the_rollouts_own_model_with_its_key(serve, model):
    driver = serve(asking(temperature=0.5, tools=[{"type": "function"}]), reward_one)
    body = await driver.run(chat_completions_url=f"{model.url}/r1/", llm_api_key="key")
    assert body["status"] == "success", body
    assert body["sample"]["messages"][-1] == {"role": "assistant", "content": "hello"}
    [request] = model.requests
    assert request.pop("model")
    assert request == {
        "path": "/v1/r1/chat/completions",
        "authorization": "Bearer key",
        "messages": [{"role": "user", "content": "q"}],
        "temperature": 0.5,
        "tools": [{"type": "function"}],
    }


async def test_without_a_key_no_header_is_sent(serve, model):
    await serve(asking(), reward_one).run(chat_completions_url=model.url)
    assert model.requests[0]["authorization"] is None


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, ""), ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb")],
)
async def test_the_content_is_always_text_and_tool_calls_are_kept(serve, model, content, text):
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    model.message = {"content": content, "tool_calls": calls}
    body = await serve(asking(), reward_one).run(chat_completions_url=model.url)
    message = body["sample"]["messages"][-1]
    assert message == {"role": "assistant", "content": text, "tool_calls": calls}


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (400, '{"error": {"message": "no such field"}}', "no such field (HTTP 400)"),
        (502, '{"detail": "upstream is down"}', "upstream is down (HTTP 502)"),
        (500, "plain", "plain (HTTP 500)"),
        (410, "", "the model refused the call without a word (HTTP 410)"),
        (200, "not json", "the answer is no chat completion"),
        (200, '{"choices": []}', "the answer is no chat completion"),
    ],
)
async def test_an_error_answer_is_a_model_call_error(serve, model, status, text, message):
    model.answer = web.Response(status=status, text=text)
    body = await serve(asking(), reward_one).run(chat_completions_url=model.url)
    assert (body["status"], body["err_category"]) == ("failure", "http_error")
    assert body["err_message"].startswith(message)


async def test_a_model_that_does_not_answer_is_a_model_call_error_of_status_zero(serve, model):
    caught = []

    async def run(ctx):
        try:
            await call_model(ctx.prompt)
        except ModelCallError as error:
            caught.append((error.status, error.message))
        return []

    await serve(run, reward_one).run(chat_completions_url="http://127.0.0.1:1/v1")
    [(status, message)] = caught
    assert status == 0
    assert "did not answer" in message


async def test_all_calls_share_one_pool_and_reuse_its_connections(serve, model):
    driver = serve(asking(), reward_one)
    for _ in range(5):
        await driver.run(chat_completions_url=model.url)
    assert len(model.connections) == 1


async def test_an_answer_in_chunks_is_read_whole(serve, model):
    model.answer = web.json_response({"choices": [{"message": {"content": "long " * 20_000}}]})
    model.answer.enable_chunked_encoding()
    body = await serve(asking(), reward_one).run(chat_completions_url=model.url)
    assert body["sample"]["messages"][-1]["content"] == "long " * 20_000


async def test_an_address_that_needs_more_than_plain_http_works_as_well(serve, model):
    driver = serve(asking(), reward_one)
    body = await driver.run(chat_completions_url=f"{model.url}/a place/é", llm_api_key="key")
    assert body["status"] == "success", body
    assert model.requests[0]["path"] == "/v1/a place/é/chat/completions"
    assert model.requests[0]["authorization"] == "Bearer key"


async def test_calls_of_one_sample_at_the_same_time_each_get_their_own_answer(serve, model):
    async def echo_chat(request):
        asked = (await request.json())["messages"][0]["content"]
        await asyncio.sleep(0)
        return web.json_response({"choices": [{"message": {"content": asked}}]})

    model.answering = echo_chat

    async def run(ctx):
        words = [f"word {i}" for i in range(50)]
        calls = [call_model([{"role": "user", "content": word}]) for word in words]
        answers = [reply["content"] for reply in await asyncio.gather(*calls)]
        return [{"role": "assistant", "content": str(answers == words)}]

    body = await serve(run, reward_one).run(chat_completions_url=model.url)
    assert body["sample"]["messages"][-1]["content"] == "True"


async def test_a_cancelled_rollout_hangs_up_on_the_model(serve, model):
    model.hold = asyncio.Event()
    driver = serve(asking(), reward_one)
    rollout = await driver.start(chat_completions_url=model.url)
    async with asyncio.timeout(5):
        while not model.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await driver.cancel(ids=[rollout])
    await asyncio.wait_for(model.gone.wait(), 5)


async def test_streaming_is_refused_and_says_why(serve, model):
    body = await serve(asking(stream=True), reward_one).run(chat_completions_url=model.url)
    assert body["err_category"] == "validation_error"
    assert model.requests == []


async def test_what_orjson_cannot_write_is_sent_all_the_same(serve, model):
    async def run(ctx):
        return [await call_model([{"role": "user", "content": "\ud800"}], seed=2**70)]

    body = await serve(run, reward_one).run(chat_completions_url=model.url)
    assert body["status"] == "success", body
    assert model.requests[0]["seed"] == 2**70


async def test_outside_a_rollout_there_is_no_model():
    with pytest.raises(RuntimeError, match="only while AgentWorkflow"):
        await call_model([])
    with pytest.raises(RuntimeError, match="only while Grader"):
        await call_judge([])
    gc.collect()


async def test_a_grader_reaches_the_judge_with_the_judges_own_key(serve, model):
    async def grade(ctx):
        verdict = await call_judge([{"role": "user", "content": "good?"}], temperature=0)
        ctx.set_reward(len(verdict["content"]))

    body = await serve(echo, grade).run(
        chat_completions_url="http://policy/v1",
        llm_api_key="policy-key",
        judge_completions_url=f"{model.url}/judges/r",
        judge_api_key="judge-key",
    )
    assert body["sample"]["reward"] == 5.0
    [request] = model.requests
    assert request["path"] == "/v1/judges/r/chat/completions"
    assert request["authorization"] == "Bearer judge-key"


async def test_without_a_judge_model_the_grader_is_told_where_to_set_one(serve, model):
    async def grade(ctx):
        await call_judge([])

    body = await serve(echo, grade).run(chat_completions_url=model.url, judge_completions_url=None)
    assert body["status"] == "failure"
    assert "judge_model under [advanced]" in body["err_message"]
    assert model.requests == []


async def test_neither_side_reaches_the_others_model(serve, model):
    async def run(ctx):
        await call_judge([])

    async def grade(ctx):
        await call_model([])

    links = {"chat_completions_url": model.url, "judge_completions_url": model.url}
    body = await serve(run, reward_one).run(**links)
    assert "only while Grader" in body["err_message"]
    body = await serve(echo, grade).run(**links)
    assert "call_judge()" in body["err_message"]
    assert model.requests == []
