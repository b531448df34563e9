from __future__ import annotations

import pytest

from osmosis.rollout.types import RolloutInitResponse
from tests.rollout.driver import echo, reward_one


async def test_an_admitted_rollout_gets_a_lease(serve):
    driver = serve(echo, reward_one)
    answer = await driver.post(rollout_id="r-1")
    assert answer.status_code == 202
    body = RolloutInitResponse.model_validate(answer.json())
    assert (body.rollout_id, body.status) == ("r-1", "queued")
    assert (body.result_wait_timeout_sec, body.polling_lease_timeout_sec) == (30.0, 120.0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"label": 5}, "label"),
        ({"initial_messages": "x"}, "initial_messages"),
        ({"initial_messages": ["x"]}, "initial_messages"),
        ({"rollout_id": None}, "rollout_id"),
        ({"rollout_id": ""}, "rollout_id"),
        ({"rollout_id": ".."}, "rollout_id"),
        ({"rollout_id": "a/b"}, "rollout_id"),
        ({"rollout_id": "a\\b"}, "rollout_id"),
        ({"rollout_id": "a\0b"}, "rollout_id"),
        ({"chat_completions_url": None}, "chat_completions_url"),
        ({"llm_api_key": ""}, "llm_api_key"),
        ({"metadata": [1]}, "metadata"),
        ({"agent_timeout_sec": "soon"}, "agent_timeout_sec"),
        ({"grader_timeout_sec": "inf"}, "grader_timeout_sec"),
    ],
)
async def test_a_malformed_field_is_named_in_a_422(serve, change, field):
    answer = await serve(echo).post(**change)
    assert answer.status_code == 422
    [issue] = answer.json()["detail"]
    assert issue["loc"][:2] == ["body", field]
    assert {"type", "msg", "input"} <= set(issue)


@pytest.mark.parametrize("content", [b"", b"{nope", b"[]", b"null", b"{}"])
async def test_a_body_that_is_no_request_is_a_422(serve, content):
    answer = await serve(echo).http.post("/rollout", content=content)
    assert answer.status_code == 422
    assert answer.json()["detail"]


async def test_unknown_fields_are_ignored_and_numeric_text_is_taken_for_a_timeout(serve):
    driver = serve(echo, reward_one)
    body = await driver.run(agent_timeout_sec="30", surprise=1)
    assert body["status"] == "success"


async def test_an_empty_prompt_is_legal(serve):
    body = await serve(echo, reward_one).run(initial_messages=[], metadata={"a": 1}, label=None)
    assert body["status"] == "success"


async def test_a_lone_surrogate_in_the_prompt_reaches_the_workflow(serve):
    seen = []

    async def run(ctx):
        seen.append(ctx.prompt[0]["content"])
        return await echo(ctx)

    driver = serve(run, reward_one)
    content = (
        b'{"rollout_id": "s", "chat_completions_url": "u", "label": "x",'
        b' "initial_messages": [{"role": "user", "content": "\\ud800"}]}'
    )
    answer = await driver.http.post("/rollout", content=content)
    driver.leases["s"] = answer.json()["polling_lease_token"]
    body = await driver.result("s")
    assert seen == ["\ud800"]
    assert body["sample"]["messages"][0]["content"] == "\ufffd"


async def test_the_same_id_twice_is_a_409_even_when_the_first_has_finished(serve):
    driver = serve(echo, reward_one)
    await driver.run(rollout_id="twice")
    assert (await driver.post(rollout_id="twice")).status_code == 409


async def test_a_backend_without_capacity_is_a_429_that_says_when_to_retry(serve):
    driver = serve(echo)
    driver.backend.has_capacity = lambda: False
    answer = await driver.post()
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "5"


async def test_a_workflow_that_is_no_class_is_refused_when_the_backend_is_made():
    from osmosis.rollout import LocalBackend

    for wrong in (object(), int, "json:loads"):
        with pytest.raises(TypeError, match="workflow must be a class"):
            LocalBackend(workflow=wrong)
    with pytest.raises(ValueError, match="module:attribute"):
        LocalBackend(workflow="json")
    with pytest.raises(ValueError, match="no attribute"):
        LocalBackend(workflow="json:nothing")
