"""Which process a shard is forked from, and that none of these can cost a run anything."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from osmosis.worker import nursery_process, shards
from tests.evaluation.engine_fakes import until
from tests.worker.runner_api import FakePlatform

CLAUDE = "anthropic/claude-sonnet-4-5"
HAS_LITELLM = "has-litellm"
"""How ``fake_shard.py`` calls a process with LiteLLM loaded, and so those forked from it."""


def busy(worker):
    return [psutil.Process(shard.pid) for shard in worker._shards._busy]


def nursery(worker, *, litellm=False):
    return worker._shards._nurseries.get(litellm)


async def executed(platform, *scripts, **more):
    """A run to its end."""
    run = platform.submit(*scripts, **more)
    await until(lambda: run.ended, limit_s=30)
    assert run.status == "finished", run.finish
    assert len(run.records) == len(scripts)
    return run


async def test_litellm_is_loaded_beside_the_runs_that_need_it_and_dropped_when_idle(
    start_worker, monkeypatch
):
    async with FakePlatform() as platform, start_worker(platform) as worker:
        run = platform.submit("sleep 1", model_path=CLAUDE)
        await until(lambda: "running" in run.stages, limit_s=20)
        [first] = busy(worker)
        assert first.name() != HAS_LITELLM, "the first one waits for nothing"
        assert nursery(worker, litellm=True) is None

        second = platform.submit("sleep 1", model_path="openai/o3", advanced=judged_by(CLAUDE))
        await until(lambda: "running" in second.stages, limit_s=20)
        assert [shard.name() for shard in busy(worker) if shard != first] == [HAS_LITELLM]
        await until(lambda: run.ended and second.ended, limit_s=20)

        plain = platform.submit("sleep 0.5")
        own = platform.submit("sleep 0.5", model_path=CLAUDE, env={"LITELLM_MODE": "PRODUCTION"})
        await until(lambda: "running" in plain.stages and "running" in own.stages, limit_s=20)
        assert HAS_LITELLM not in [shard.name() for shard in busy(worker)]
        await until(lambda: plain.ended and own.ended, limit_s=20)

        monkeypatch.setattr(shards, "LITELLM_IDLE_S", 0.1)
        await executed(platform, "reward 1", model_path=CLAUDE)
        await until(lambda: nursery(worker, litellm=True) is None, limit_s=10)
        await until(lambda: len(worker._shards._alive) == 1, limit_s=10)


async def test_killing_the_parent_of_shards_mid_run_loses_nothing(start_worker):
    async with FakePlatform() as platform, start_worker(platform) as worker:
        run = platform.submit(*["sleep 0.05"] * 40)
        await until(lambda: len(run.records) > 5, limit_s=20)
        first = nursery(worker)
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: not first.usable)
        await until(lambda: run.ended, limit_s=20)
        assert sorted(run.records) == [(row, 0) for row in range(40)]
        assert run.claims == 1
        assert run.status == "finished"
        await executed(platform, "reward 1")
        assert nursery(worker).usable and nursery(worker) is not first


async def test_a_parent_that_answers_nothing_is_done_without(start_worker, monkeypatch):
    monkeypatch.setattr(nursery_process, "ANSWER_LIMIT_S", 0.2)
    monkeypatch.setattr(shards, "TRIES", 1)
    async with FakePlatform() as platform, start_worker(platform) as worker:
        await until(lambda: nursery(worker) is not None)
        stuck = nursery(worker)
        os.kill(stuck.pid, signal.SIGSTOP)
        await executed(platform, "reward 1")
        assert not stuck.usable
        await executed(platform, "reward 1")
        assert nursery(worker) is stuck, "nobody waits for another one at once"


async def test_where_nothing_can_be_forked_shards_are_started_one_by_one(start_worker, monkeypatch):
    monkeypatch.setenv("FAKE_THREAD", "1")
    async with FakePlatform() as platform, start_worker(platform) as worker:
        await executed(platform, "reward 1")
        assert worker._shards._unforkable == {False}
        await executed(platform, "reward 1")
        assert not worker._shards._alive, "it is not tried again and again"


def judged_by(model):
    return {"judge_model": model}


@pytest.mark.parametrize(
    ("model", "more", "wanted"),
    [
        (CLAUDE, {}, True),
        ("openai/gpt-5", {}, False),
        ("scripted/rules.toml", {}, False),
        ("replay/some-run", {}, False),
        ("local", {}, False),
        ("replay/some-run", {"advanced": judged_by(CLAUDE)}, True),
        (CLAUDE, {"regrade": True}, False),
        (CLAUDE, {"endpoints": [{"name": "anthropic", "base_url": "http://h/v1"}]}, False),
        (CLAUDE, {"secrets": {"LITELLM_SALT": "x"}}, False),
    ],
)
def test_only_runs_that_call_through_litellm_want_it(model, more, wanted):
    spec = FakePlatform().submit("reward 1", model_path=model, **more).spec
    assert shards._wants_litellm(spec) is wanted
