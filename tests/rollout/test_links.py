"""Addresses that are handed to the clients which user code brings along."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from osmosis.rollout import RolloutContext, judge_settings, model_settings
from osmosis.rollout.integrations.openai_client import rollout_client
from tests.rollout.test_model import Model, model  # noqa: F401

QUESTION = [{"role": "user", "content": "q"}]
ANSWER = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "hello"},
        }
    ],
}


def test_settings_are_the_active_rollouts_own():
    with RolloutContext("http://model/v1/r1/", "key", "r1"):
        settings = model_settings()
    assert settings.for_openai() == {"base_url": "http://model/v1/r1", "api_key": "key"}
    assert settings.for_litellm() == {
        "model": "openai/osmosis-rollout",
        "api_base": "http://model/v1/r1",
        "api_key": "key",
    }


def test_outside_a_rollout_and_its_grading_the_settings_say_where_they_work():
    with pytest.raises(RuntimeError, match=r"model_settings\(\) works only while AgentWorkflow"):
        model_settings()
    with pytest.raises(RuntimeError, match=r"judge_settings\(\) works only while Grader"):
        judge_settings()


async def test_an_openai_client_calls_each_rollouts_own_model_over_shared_connections(
    model: Model,  # noqa: F811
):
    from aiohttp import web

    for name in ("r1", "r2"):
        model.answer = web.json_response(ANSWER)
        with RolloutContext(f"{model.url}/{name}", f"key-{name}", name):
            reply = await rollout_client().chat.completions.create(
                model="osmosis-rollout",
                messages=QUESTION,  # pyright: ignore[reportArgumentType]
            )
        assert reply.choices[0].message.content == "hello"
    assert [(call["path"], call["authorization"]) for call in model.requests] == [
        ("/v1/r1/chat/completions", "Bearer key-r1"),
        ("/v1/r2/chat/completions", "Bearer key-r2"),
    ]
    assert len(model.connections) == 1


@pytest.mark.parametrize("extra", ["openai-agents", "strands"])
def test_a_missing_framework_is_told_with_the_extra_to_add(extra: str, tmp_path):
    module = extra.replace("-", "_")
    (tmp_path / "blocked.py").write_text(
        "import sys\nfor name in ('agents', 'strands'): sys.modules[name] = None\n"
        f"import osmosis.rollout.integrations.agents.{module}\n"
    )
    done = subprocess.run(
        [sys.executable, tmp_path / "blocked.py"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert f"osmosis-platform[{extra}]" in done.stderr.strip().splitlines()[-1]
