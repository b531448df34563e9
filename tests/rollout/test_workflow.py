"""What becomes of a workflow: its output, its failures, its deadline, its place in the queue."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from osmosis.rollout import (
    AgentWorkflow,
    AgentWorkflowConfig,
    AgentWorkflowOutput,
    ConcurrencyConfig,
    LocalBackend,
    ModelCallError,
    RolloutSample,
    SampleSource,
    get_rollout_context,
)
from osmosis.rollout.backend import deadline
from tests.rollout.driver import Driver, echo, reward_one, until


class Source(SampleSource):
    def __init__(self, sample):
        self.sample = sample

    async def get_sample(self):
        return self.sample


async def test_a_message_list_becomes_the_sample_with_the_requests_label(serve):
    body = await serve(echo, reward_one).run(label="12")
    sample = body["sample"]
    assert [message["content"] for message in sample["messages"]] == ["q", "a"]
    assert (sample["label"], sample["metrics"], sample["remove_sample"]) == ("12", {}, False)


async def test_an_output_brings_its_metrics(serve):
    async def run(ctx):
        return AgentWorkflowOutput(messages=[], metrics={"turns": 3})

    body = await serve(run, reward_one).run()
    assert body["sample"]["metrics"] == {"turns": 3.0}


async def test_none_takes_the_sample_of_the_registered_source(serve):
    async def run(ctx):
        source = Source(RolloutSample(messages=[{"role": "assistant", "content": "s"}]))
        get_rollout_context().set_sample_source(source)

    sample = (await serve(run, reward_one).run())["sample"]
    assert (sample["messages"][0]["content"], sample["label"]) == ("s", None)


def raising(error):
    async def run(ctx):
        raise error

    return run


class OddError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "category", "message"),
    [
        (RuntimeError("boom"), "agent_error", "boom"),
        (RuntimeError(), "agent_error", "RuntimeError"),
        (OddError(), "agent_error", "OddError"),
        (ValueError("bad"), "validation_error", "bad"),
        (TypeError("bad"), "validation_error", "bad"),
        (AssertionError("bad"), "validation_error", "bad"),
        (TimeoutError("slow"), "timeout", "slow"),
        (ModelCallError(502, "upstream"), "http_error", "upstream (HTTP 502)"),
        (SystemExit(3), "agent_error", "the workflow called for the process to exit"),
        (asyncio.CancelledError(), "agent_error", "the workflow cancelled itself"),
    ],
)
async def test_each_exception_travels_under_its_category(serve, error, category, message):
    body = await serve(raising(error), reward_one).run()
    assert (body["status"], body["err_category"]) == ("failure", category)
    assert body["err_message"].startswith(message)
    assert body["sample"] is None


@pytest.mark.parametrize("value", ["text", 5, ("a",), ["text"], {"role": "user"}])
async def test_an_unusable_return_value_is_a_validation_error(serve, value):
    async def run(ctx):
        return value

    body = await serve(run, reward_one).run()
    assert (body["status"], body["err_category"]) == ("failure", "validation_error")


async def test_a_nan_that_slipped_into_the_metrics_is_a_validation_error(serve):
    async def run(ctx):
        output = AgentWorkflowOutput(messages=[])
        output.metrics["x"] = float("nan")
        return output

    assert (await serve(run, reward_one).run())["err_category"] == "validation_error"


async def test_a_workflow_past_its_deadline_times_out(serve):
    async def run(ctx):
        await asyncio.sleep(60)

    started = time.monotonic()
    body = await serve(run).run(agent_timeout_sec=0.1)
    assert time.monotonic() - started < 2
    assert (body["status"], body["err_category"]) == ("failure", "timeout")
    assert "the workflow" in body["err_message"]
    assert "0.1 s" in body["err_message"]


async def test_a_deadline_of_zero_expires_before_any_user_code_runs(serve):
    ran = []

    async def run(ctx):
        ran.append(1)

    body = await serve(run).run(agent_timeout_sec=0)
    assert (body["err_category"], ran) == ("timeout", [])


async def test_swallowing_the_cancellation_does_not_save_a_late_result(serve):
    async def run(ctx):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return await echo(ctx)

    assert (await serve(run, reward_one).run(agent_timeout_sec=0.05))["err_category"] == "timeout"


async def test_blocking_the_loop_past_the_deadline_times_out(serve):
    async def run(ctx):
        time.sleep(0.2)  # noqa: ASYNC251  (this is the fault under test)
        return await echo(ctx)

    assert (await serve(run, reward_one).run(agent_timeout_sec=0.05))["err_category"] == "timeout"


async def test_a_workflow_that_never_ends_is_left_behind_and_frees_its_slot(serve, monkeypatch):
    monkeypatch.setattr(deadline, "CANCEL_GRACE_S", 0.05)
    release = asyncio.Event()

    async def run(ctx):
        while ctx.metadata["stuck"] and not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return await echo(ctx)

    config = AgentWorkflowConfig(name="one", concurrency=ConcurrencyConfig(max_concurrent=1))
    driver = serve(run, reward_one, config=config)
    try:
        body = await driver.run(agent_timeout_sec=0.5, metadata={"stuck": True})
        assert body["err_category"] == "timeout"
        assert (await driver.run(metadata={"stuck": False}))["status"] == "success"
    finally:
        release.set()


async def test_four_rollouts_run_at_once_without_a_config(serve):
    async def run(ctx):
        await asyncio.sleep(60)

    driver = serve(run)
    for _ in range(6):
        await driver.start()
    await until(lambda: driver.backend.slots.running == 4)
    concurrency = (await driver.health())["concurrency"]
    assert concurrency == {"max_concurrent": 4, "queued": 2, "running": 4}


async def test_a_config_without_a_limit_means_no_limit(serve):
    async def run(ctx):
        await asyncio.sleep(60)

    driver = serve(run, config=AgentWorkflowConfig(name="w"))
    for _ in range(9):
        await driver.start()
    await until(lambda: driver.backend.slots.running == 9)
    assert (await driver.health())["concurrency"]["max_concurrent"] is None


async def test_a_slot_covers_the_grading_too(serve):
    grading, release = asyncio.Event(), asyncio.Event()

    async def grade(ctx):
        grading.set()
        await release.wait()
        ctx.set_reward(1)

    config = AgentWorkflowConfig(name="one", concurrency=ConcurrencyConfig(max_concurrent=1))
    driver = serve(echo, grade, config=config)
    first, second = await driver.start(), await driver.start()
    await asyncio.wait_for(grading.wait(), 5)
    assert (await driver.health())["concurrency"] == {
        "max_concurrent": 1,
        "queued": 1,
        "running": 1,
    }
    release.set()
    assert (await driver.result(first))["status"] == "success"
    assert (await driver.result(second))["status"] == "success"


async def test_time_in_the_queue_counts_against_the_workflows_limit(serve):
    async def run(ctx):
        await asyncio.sleep(ctx.metadata["s"])
        return await echo(ctx)

    config = AgentWorkflowConfig(name="one", concurrency=ConcurrencyConfig(max_concurrent=1))
    driver = serve(run, reward_one, config=config)
    holder = await driver.start(metadata={"s": 0.3})
    late = await driver.start(metadata={"s": 0.3}, agent_timeout_sec=0.5)
    never = await driver.start(metadata={"s": 0}, agent_timeout_sec=0.1)
    body = await driver.result(never)
    assert body["err_category"] == "timeout"
    assert "queued" in body["err_message"]
    assert (await driver.result(holder))["status"] == "success"
    body = await driver.result(late)
    assert body["err_category"] == "timeout"
    assert "were spent waiting" in body["err_message"]


async def test_each_rollout_gets_its_own_instance_and_its_own_config(artifact_root):
    class Counting(AgentWorkflow):
        async def run(self, ctx):
            assert self.config is ctx.config
            assert self.config is not CONFIG
            ctx.config.seen.append(1)
            return [{"role": "assistant", "content": str(len(ctx.config.seen))}]

    backend = LocalBackend(workflow=Counting, workflow_config=CONFIG)
    driver = Driver(None, None, artifact_root, backend=backend)
    for _ in range(2):
        body = await driver.run(grade=False)
        assert body["sample"]["messages"][0]["content"] == "1"
    await driver.close()


CONFIG = AgentWorkflowConfig(name="c", seen=[])


async def test_a_constructor_that_raises_fails_the_rollout_with_its_category(artifact_root):
    class Broken(AgentWorkflow):
        def __init__(self, config=None):
            raise ValueError("no such thing")

        async def run(self, ctx): ...

    driver = Driver(None, None, artifact_root, backend=LocalBackend(workflow=Broken))
    body = await driver.run()
    assert (body["err_category"], body["err_message"]) == ("validation_error", "no such thing")
    await driver.close()


async def test_a_backend_may_be_described_by_names(artifact_root, monkeypatch):
    monkeypatch.setitem(sys.modules, "user_module", sys.modules[__name__])
    backend = LocalBackend(workflow="user_module:Named", workflow_config="user_module:CONFIG")
    assert backend.workflow is Named
    assert backend.workflow_config is CONFIG


class Named(AgentWorkflow):
    async def run(self, ctx): ...


async def test_a_long_error_text_is_cut(serve):
    body = await serve(raising(RuntimeError("x" * 50_000))).run()
    assert len(body["err_message"]) < 11_000
