from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from osmosis.rollout import (
    AgentWorkflowOutput,
    GraderContext,
    RolloutSample,
    get_rollout_context,
)
from osmosis.rollout.backend import ExecutionBackend
from tests.rollout.driver import echo, reward_one


class LikeNumpy:
    """A scalar that is a number to float() alone, as those of numpy are."""

    def __float__(self):
        return 0.25


async def outcome(serve, grade, **body):
    return await serve(echo, grade).run(**body)


async def test_a_graded_sample_succeeds_with_its_reward(serve):
    async def grade(ctx):
        assert (ctx.label, ctx.metadata, ctx.project_path) == ("12", {"a": 1}, None)
        ctx.set_reward(-2.5)

    body = await outcome(serve, grade, label="12", metadata={"a": 1})
    assert (body["status"], body["sample"]["reward"]) == ("success", -2.5)


async def test_no_model_is_within_reach_of_a_grader(serve):
    seen = []

    async def grade(ctx):
        seen.append(get_rollout_context())
        ctx.set_reward(1)

    await outcome(serve, grade)
    assert seen == [None]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "much", None])
async def test_a_reward_that_is_no_finite_number_fails_the_sample(serve, value):
    async def grade(ctx):
        ctx.set_reward(value)

    body = await outcome(serve, grade)
    assert (body["status"], body["err_category"]) == ("failure", "validation_error")
    assert body["sample"]["reward"] is None
    assert "reward" in body["err_message"]


@pytest.mark.parametrize("value", [True, 0, Decimal("0.5"), LikeNumpy()])
async def test_anything_that_is_a_number_is_a_reward(serve, value):
    async def grade(ctx):
        ctx.set_reward(value)

    assert (await outcome(serve, grade))["sample"]["reward"] == float(value)


async def test_without_a_reward_grading_has_failed(serve):
    async def grade(ctx):
        return 1.0

    body = await outcome(serve, grade)
    assert (body["status"], body["err_category"]) == ("failure", "validation_error")
    assert "set_reward" in body["err_message"]
    assert body["sample"]["messages"]


async def test_a_removed_sample_succeeds_without_a_reward(serve):
    async def grade(ctx):
        ctx.set_reward(1)
        ctx.sample.remove_sample = True

    body = await outcome(serve, grade)
    assert (body["status"], body["sample"]["reward"]) == ("success", None)
    assert body["sample"]["remove_sample"] is True


async def test_a_grader_that_raises_sends_the_sample_without_its_reward(serve):
    async def grade(ctx):
        ctx.set_reward(1)
        raise RuntimeError("gone")

    body = await outcome(serve, grade)
    assert (body["status"], body["err_category"], body["err_message"]) == (
        "failure",
        "agent_error",
        "gone",
    )
    assert body["sample"]["reward"] is None


async def test_a_grader_has_a_limit_of_its_own(serve):
    async def grade(ctx):
        await asyncio.sleep(60)

    body = await outcome(serve, grade, agent_timeout_sec=30, grader_timeout_sec=0.05)
    assert body["err_category"] == "timeout"
    assert "the grader" in body["err_message"]
    assert body["sample"]["messages"]


async def test_a_workflow_without_a_sample_cannot_be_graded(serve):
    async def run(ctx):
        return None

    async def look(ctx):
        assert ctx.sample is None

    for grade in (reward_one, look):
        body = await serve(run, grade).run()
        assert (body["status"], body["err_category"]) == ("failure", "validation_error")
        assert "sample" in body["err_message"]


async def test_without_label_and_metadata_nothing_can_be_graded(serve):
    body = await outcome(serve, reward_one, label=None)
    assert (body["status"], body["sample"], body["err_category"]) == ("failure", None, None)
    assert "neither a label nor metadata" in body["err_message"]
    assert (await outcome(serve, reward_one, label=None, metadata={}))["status"] == "success"


async def test_without_a_grader_nothing_can_be_graded(serve):
    body = await outcome(serve, None)
    assert (body["status"], body["sample"]) == ("failure", None)


async def test_grading_can_be_left_out(serve):
    async def run(ctx):
        sample = RolloutSample(messages=[], reward=0.5)
        get_rollout_context().set_sample_source(_Source(sample))

    body = await serve(echo, reward_one).run(grade=False)
    assert (body["status"], body["sample"]["reward"]) == ("success", None)
    assert (await serve(run, reward_one).run(grade=False))["sample"]["reward"] == 0.5


class _Source:
    def __init__(self, sample):
        self.sample = sample

    async def get_sample(self):
        return self.sample


def test_a_reward_without_a_sample_is_refused():
    with pytest.raises(ValueError, match="no sample to reward"):
        GraderContext().set_reward(1.0)


async def test_a_stored_sample_is_graded_without_its_workflow(serve):
    async def never(ctx):
        raise AssertionError("the workflow must not run")

    async def grade(ctx):
        assert ctx.sample.extra_fields == {"note": 1} and ctx.label == "L"
        ctx.sample.metrics["length"] = len(ctx.sample.messages[-1]["content"])
        ctx.set_reward(0.5)

    stored = {
        "messages": [{"role": "assistant", "content": "four", "odd": [1]}],
        "metrics": {"turns": 3},
        "extra_fields": {"note": 1},
    }
    body = await serve(never, grade).run(stored_sample=stored)
    assert (body["status"], body["sample"]["reward"]) == ("success", 0.5)
    assert body["sample"]["metrics"] == {"turns": 3, "length": 4}
    assert body["sample"]["messages"] == stored["messages"]


async def test_the_workflows_own_metrics_are_told_apart_from_the_graders(serve):
    async def run(ctx):
        return AgentWorkflowOutput(
            messages=[{"role": "assistant", "content": "x"}], metrics={"t": 1}
        )

    async def grade(ctx):
        ctx.sample.metrics["t"] = 2
        ctx.set_reward(1.0)

    body = await serve(run, grade).run(compact_trajectory=True)
    assert (body["workflow_metrics"], body["sample"]["metrics"]) == ({"t": 1}, {"t": 2})


async def test_health_says_whether_stored_samples_can_be_graded(serve):
    class Other(ExecutionBackend):
        async def execute(self, request):
            raise NotImplementedError

    assert (await serve(echo, reward_one).http.get("/health")).json()["regrade"] is True
    other = serve(echo, reward_one, backend=Other())
    assert (await other.http.get("/health")).json()["regrade"] is False
