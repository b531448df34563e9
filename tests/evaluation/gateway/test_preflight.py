from __future__ import annotations

import asyncio
import socket

import pytest
from aiohttp import web

from osmosis.evaluation.gateway import openai_compatible, preflight
from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import ModelEndpoint
from tests.evaluation.gateway.upstream import HELLO, KEY, completion, fails, says


def usage(answer) -> dict[str, int]:
    return {name: answer["usage"][name] for name in ("prompt_tokens", "completion_tokens")}


async def failure(bench) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        await bench.gateway.preflight()
    return caught.value


@pytest.fixture(autouse=True)
def short_patience(monkeypatch):
    monkeypatch.setattr(preflight, "RATE_LIMIT_PATIENCE_S", 0.3)
    monkeypatch.setattr(preflight, "BACKOFF_FIRST_S", 0.01)


async def test_one_small_completion_with_the_settings_of_the_run(make_bench, upstream):
    bench = await make_bench(advanced={"temperature": 0.2, "judge_model": "openai/judge"})
    await bench.gateway.preflight()
    policy, judge = upstream.bodies
    assert policy == {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 256,
        "temperature": 0.2,
        "model": "the-model",
    }
    assert judge["model"] == "judge"
    assert "temperature" not in judge
    assert bench.session.calls == []
    described = bench.gateway.describe()
    assert described["provider"] == "openai"
    assert described["base_url"] == upstream.base_url
    assert described["price"] is None
    assert described["judge"]["model"] == "openai/judge"
    told = usage(completion())
    assert described["check"] == described["judge"]["check"] == {**told, "cost_usd": None}


async def test_an_endpoint_that_only_knows_max_completion_tokens_is_understood(
    make_bench, upstream
):
    text = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    upstream.answers = [fails(400, text), says(completion())]
    bench = await make_bench(advanced={"max_tokens": 32})
    await bench.gateway.preflight()
    await bench.post()
    assert [body.get("max_completion_tokens") for body in upstream.bodies] == [None, 32, 32]
    assert "max_tokens" not in upstream.bodies[2]
    # Another shard of the run takes it over, and asks nothing.
    other = await make_bench(advanced={"max_tokens": 32}, checked=bench.gateway.describe())
    await other.gateway.preflight()
    assert upstream.hits == 3
    await other.post()
    assert upstream.bodies[3].get("max_completion_tokens") == 32


@pytest.mark.parametrize("status", [401, 403])
async def test_a_rejected_key(make_bench, upstream, status):
    upstream.answers = [fails(status, f"bad key {KEY}")]
    failed = await failure(await make_bench())
    assert failed.kind == "model_key_rejected"
    assert KEY not in failed.message
    assert "osmosis secret set" in (failed.hint or "")


async def test_a_rate_limit_after_a_few_spaced_tries(make_bench, upstream):
    upstream.answers = [fails(429, "slow down")]
    failed = await failure(await make_bench())
    assert failed.kind == "model_rate_limited"
    assert 2 <= upstream.hits < 10


async def test_a_rate_limit_that_passes_is_no_failure(make_bench, upstream):
    upstream.answers = [fails(429), fails(429), says(completion())]
    await (await make_bench()).gateway.preflight()


async def test_a_long_wait_asked_for_is_not_waited_for(make_bench, upstream):
    upstream.answers = [fails(429, "later", {"Retry-After": "3600"})]
    assert (await failure(await make_bench())).kind == "model_rate_limited"
    assert upstream.hits == 1


async def test_a_spent_quota_has_its_own_remedy(make_bench, upstream):
    error = {"message": "no money", "code": "insufficient_quota"}
    upstream.answers = [says({"error": error}, 429)]
    failed = await failure(await make_bench())
    assert failed.kind == "model_quota_exhausted"
    assert "credit" in (failed.hint or "")


async def test_nobody_at_the_address(make_bench):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    bench = await make_bench(env={"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"})
    failed = await failure(bench)
    assert failed.kind == "model_unreachable"
    assert "Connection refused" in failed.message
    assert f"127.0.0.1:{port}" in failed.message


async def test_a_host_that_takes_no_connection_in_time(make_bench, monkeypatch):
    monkeypatch.setattr(openai_compatible, "CONNECT_TIMEOUT_S", 0.05)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        bench = await make_bench(env={"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"})
        assert (await failure(bench)).kind == "model_unreachable"
        for filler in fillers:
            filler.close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"error": {"message": "The model `the-model` does not exist", "code": 404}}),
        (404, {"error": {"message": "x", "code": "model_not_found"}}),
        (404, {"error": {"message": 'model "the-model" not found, try pulling it first'}}),
        (400, {"error": {"message": "the-model is not a valid model ID"}}),
        (400, {"error": {"message": "Model Not Exist"}}),
    ],
)
async def test_an_unknown_model_names_those_that_are_there(make_bench, upstream, status, body):
    upstream.answers = [says(body, status)]
    upstream.models = ["the-modal", "other"]
    failed = await failure(await make_bench())
    assert failed.kind == "model_not_found"
    assert "It serves: the-modal, other. Did you mean 'the-modal'?" in (failed.hint or "")


@pytest.mark.parametrize("suffix", ["", "/"])
async def test_a_base_url_without_its_v1_is_told_so(make_bench, upstream, suffix):
    root = upstream.base_url.removesuffix("/v1")
    failed = await failure(await make_bench(env={"OPENAI_BASE_URL": root + suffix}))
    assert failed.kind == "model_wrong_endpoint"
    assert f"use {root}/v1" in (failed.hint or "")


async def test_a_web_page_is_not_an_endpoint(make_bench, upstream):
    async def page(request, sent):
        return web.Response(text="<html>welcome</html>", content_type="text/html")

    upstream.answers = [page]
    failed = await failure(await make_bench())
    assert failed.kind == "model_wrong_endpoint"
    assert "HTML" in failed.message


async def test_a_redirect_is_not_followed_with_the_key_but_named(make_bench, upstream):
    upstream.answers = [says({}, 301, {"Location": "https://elsewhere/v1/chat/completions"})]
    failed = await failure(await make_bench())
    assert failed.kind == "model_wrong_endpoint"
    assert "redirects to https://elsewhere" in failed.message
    assert upstream.hits == 1


async def test_another_4xx_is_the_providers_refusal(make_bench, upstream):
    upstream.answers = [fails(400, "temperature must be 1")]
    failed = await failure(await make_bench(advanced={"temperature": 0}))
    assert failed.kind == "model_refused"
    assert "temperature must be 1" in failed.message


@pytest.mark.parametrize("status", [500, 503, 529])
async def test_a_5xx_is_a_warning_only(make_bench, upstream, status):
    upstream.answers = [fails(status)]
    bench = await make_bench()
    await bench.gateway.preflight()
    assert [level for level, _ in bench.log.lines] == ["warning"]


async def test_a_slow_answer_is_a_warning_only(make_bench, upstream, monkeypatch):
    async def hangs(request, sent):
        await asyncio.sleep(60)

    monkeypatch.setattr(preflight, "PROBE_TIMEOUT_S", 0.05)
    upstream.answers = [hangs]
    bench = await make_bench()
    await bench.gateway.preflight()
    assert "did not answer" in bench.log.lines[0][1]


async def test_an_endpoint_with_one_model_needs_no_name(make_bench, upstream):
    endpoint = ModelEndpoint(name="box", base_url=upstream.base_url)
    bench = await make_bench("box", endpoints=(endpoint,))
    await bench.gateway.preflight()
    assert upstream.bodies[0]["model"] == "served-model"
    status, _, _ = await bench.post({"messages": HELLO})
    assert status == 200


@pytest.mark.parametrize(("models", "shown"), [(["a", "b"], "(a, b)"), ([], "0 models")])
async def test_an_endpoint_with_several_models_lists_them(make_bench, upstream, models, shown):
    upstream.models = models
    endpoint = ModelEndpoint(name="box", base_url=upstream.base_url)
    failed = await failure(await make_bench("box", endpoints=(endpoint,)))
    assert failed.kind == "model_name_invalid"
    assert shown in failed.message
    assert "NAME/model-id" in (failed.hint or "")


async def test_a_call_without_preflight_still_finds_its_model(make_bench, upstream):
    upstream.models = ["only"]
    endpoint = ModelEndpoint(name="box", base_url=upstream.base_url)
    bench = await make_bench("box", endpoints=(endpoint,))
    await asyncio.gather(*(bench.post() for _ in range(5)))
    assert {body["model"] for body in upstream.bodies} == {"only"}
