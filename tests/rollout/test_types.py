from __future__ import annotations

import math

import pytest

from osmosis.rollout import (
    AgentWorkflowConfig,
    AgentWorkflowOutput,
    BaseConfig,
    ConcurrencyConfig,
    RolloutContext,
    RolloutSample,
    get_rollout_context,
)


def test_a_sample_keeps_a_deep_copy_of_its_messages_for_the_trajectory():
    sample = RolloutSample(messages=[{"role": "user", "content": ["a"]}])
    sample.messages[0]["content"].append("b")
    assert sample.trajectory_messages == [{"role": "user", "content": ["a"]}]
    sample.reward = 1.0
    assert sample.trajectory_messages == [{"role": "user", "content": ["a"]}]


def test_no_trajectory_is_kept_when_none_is_said():
    assert RolloutSample(messages=[{"a": 1}], trajectory_messages=None).trajectory_messages is None


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, "x"])
def test_a_reward_is_finite_when_made_and_when_assigned(reward):
    with pytest.raises(ValueError):
        RolloutSample(reward=reward)
    sample = RolloutSample()
    with pytest.raises(ValueError):
        sample.reward = reward


def test_an_output_knows_no_other_fields_and_no_nan():
    with pytest.raises(ValueError):
        AgentWorkflowOutput(mesages=[])
    with pytest.raises(ValueError):
        AgentWorkflowOutput(metrics={"a": math.nan})


def test_a_config_takes_any_further_attribute():
    config = BaseConfig(name="c", helper=object())
    assert config.helper is not None
    assert AgentWorkflowConfig(name="w").concurrency.max_concurrent is None
    with pytest.raises(ValueError):
        ConcurrencyConfig(max_concurrent=0)
    with pytest.raises(ValueError):
        config.name = 5


async def test_a_context_is_active_inside_its_with_block_only():
    context = RolloutContext(chat_completions_url="http://m/v1", api_key="k", rollout_id="r")
    with context:
        assert get_rollout_context() is context
    assert get_rollout_context() is None
    assert await context.get_sample() is None
    assert "'k'" not in repr(context)


def test_a_context_takes_one_sample_source():
    context = RolloutContext()
    context.set_sample_source(object())
    with pytest.raises(ValueError, match="one sample"):
        context.set_sample_source(object())


def test_inside_a_container_the_address_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("OSMOSIS_CHAT_COMPLETIONS_URL", "http://container/v1")
    monkeypatch.setenv("OSMOSIS_API_KEY", "container-key")
    monkeypatch.setenv("OSMOSIS_ROLLOUT_ID", "r9")
    context = RolloutContext()
    assert (context.chat_completions_url, context.api_key, context.rollout_id) == (
        "http://container/v1",
        "container-key",
        "r9",
    )
    assert RolloutContext(chat_completions_url="http://elsewhere/v1").api_key is None
