"""``evaluate_rubric``: from Python, and inside a grader over the judge route."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

import osmosis
from osmosis.eval.rubric import evaluate_rubric as vendors_name
from osmosis.rollout import GraderContext, ModelCallError, RolloutSample
from osmosis.rollout.context import ModelLink, enter_grading, judge_link
from osmosis.rollout.model import close_sessions
from osmosis.rubric import (
    MissingAPIKeyError,
    ModelNotFoundError,
    ProviderRequestError,
    RubricResult,
    UnscoredError,
    evaluate_rubric,
)
from tests.rubric.conftest import GOOD, MockJudge, Reply

DOCUMENTED = {
    "solution_str", "rubric", "model", "ground_truth", "original_input", "metadata", "score_min",
    "score_max", "api_key", "timeout", "system_prompt",
}  # fmt: skip


@pytest.fixture
def call(mock_judge: MockJudge) -> Any:
    async def evaluate(**more: Any) -> RubricResult:
        asked = {
            "solution_str": "42",
            "rubric": "Is it right?",
            "model": "openai/m",
            "base_url": mock_judge.url,
        }
        return await evaluate_rubric(**{**asked, **more})

    return evaluate


def test_the_names_and_the_signature_are_the_documented_ones():
    assert osmosis.evaluate_rubric is evaluate_rubric is vendors_name
    parameters = inspect.signature(evaluate_rubric).parameters
    assert set(parameters) >= DOCUMENTED
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters.values())
    assert (parameters["score_min"].default, parameters["score_max"].default) == (0.0, 1.0)
    assert issubclass(ModelNotFoundError, ProviderRequestError)


def test_the_top_of_the_package_stays_light_until_it_is_asked_for():
    code = (
        "import sys, osmosis\n"
        "heavy = ['aiohttp', 'pydantic', 'json_repair', 'asyncio']\n"
        "assert not [name for name in heavy if name in sys.modules]\n"
        "osmosis.evaluate_rubric\n"
        "assert 'osmosis.evaluation' not in sys.modules, 'the route needs no adapter'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_everything_that_is_known_reaches_the_judge(call: Any, mock_judge: MockJudge):
    result = await call(
        ground_truth="43",
        original_input="6 x 7?",
        metadata={"level": "easy"},
        score_min=0,
        score_max=10,
        system_prompt="Be strict.",
        api_key="sk-given",
    )
    assert result == RubricResult(0.75, "It is right.")
    assert (result.score, result.explanation) == result
    system, user = (message["content"] for message in mock_judge.requests[0]["messages"])
    assert system.startswith("Be strict.")
    for text in ('"43"', '"6 x 7?"', '"level": "easy"', "0 to 10", "Is it right?", '"42"'):
        assert text in user
    assert mock_judge.keys == ["Bearer sk-given"]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"solution_str": ""}, TypeError),
        ({"solution_str": None}, TypeError),
        ({"rubric": " \n"}, TypeError),
        ({"score_min": 1.0}, ValueError),
        ({"score_max": float("nan")}, ValueError),
        ({"score_max": float("inf")}, ValueError),
        ({"timeout": 0}, ValueError),
        ({"metadata": {"a": float("nan")}}, ValueError),
        ({"model": "openai/m", "base_url": None}, MissingAPIKeyError),
        ({"model": "nobody", "base_url": None}, ModelNotFoundError),
    ],
)
async def test_what_is_wrong_with_the_call_is_told_before_any_request(
    call: Any, mock_judge: MockJudge, wrong: dict[str, Any], error: type[Exception]
):
    with pytest.raises(error):
        await call(**wrong)
    assert mock_judge.requests == []


async def test_a_judge_without_a_score_raises_with_its_words(call: Any, mock_judge: MockJudge):
    mock_judge.says("I like it: 8/10!")
    with pytest.raises(UnscoredError, match="no verdict") as unscored:
        await call()
    assert unscored.value.raw == "I like it: 8/10!"
    assert isinstance(unscored.value, ProviderRequestError | ModelCallError)
    assert (unscored.value.provider, unscored.value.model) == ("openai", "openai/m")


@pytest.mark.parametrize(
    ("status", "error"), [(404, ModelNotFoundError), (401, ProviderRequestError)]
)
async def test_a_refusing_provider_raises_its_kind(
    call: Any, mock_judge: MockJudge, status: int, error: type[Exception]
):
    mock_judge.says(Reply(status=status, error="the model `m` does not exist"))
    with pytest.raises(error) as raised:
        await call()
    assert type(raised.value) is error
    assert raised.value.status == status
    assert "does not exist" in raised.value.detail


async def test_many_calls_share_one_judge_and_what_it_learned(call: Any, mock_judge: MockJudge):
    def no_temperature(body: dict[str, Any]) -> Reply:
        refused = "temperature" in body
        return Reply(status=400, error="temperature is not supported") if refused else Reply()

    mock_judge.answer = no_temperature
    await call()
    mock_judge.requests.clear()
    await asyncio.gather(*(call(solution_str=str(n)) for n in range(20)))
    assert len(mock_judge.requests) == 20


def test_each_event_loop_has_its_own_client_and_closes_it(call: Any, mock_judge: MockJudge):
    """Warnings are errors here: a client left open would fail the test."""
    for _ in range(2):
        assert asyncio.run(call()).score == 0.75


class TestInsideAGrader:
    """What ``Grader.grade`` sees: the policy out of reach, the judge's route in a variable."""

    @pytest.fixture
    async def route(self, mock_judge: MockJudge) -> AsyncIterator[Any]:
        async def grade(**more: Any) -> RubricResult:
            judge_link.set(ModelLink(mock_judge.url, "bearer-of-the-run"))
            enter_grading()
            return await evaluate_rubric(solution_str="42", rubric="Is it right?", **more)

        async def in_a_task(**more: Any) -> RubricResult:
            return await asyncio.create_task(grade(**more))

        yield in_a_task
        await close_sessions()

    async def test_without_a_model_the_runs_judge_is_asked(self, route: Any, mock_judge: MockJudge):
        assert await route() == RubricResult(0.75, "It is right.")
        assert mock_judge.keys == ["Bearer bearer-of-the-run"]
        assert mock_judge.requests[0]["model"] == "osmosis-rollout"

    async def test_the_form_is_learned_across_graders(self, route: Any, mock_judge: MockJudge):
        mock_judge.says(Reply(status=400, error="response_format is not supported"), GOOD)
        await route()
        await route()
        formats = [body.get("response_format", {}).get("type") for body in mock_judge.requests]
        assert formats == ["json_schema", "json_object", "json_object"]

    async def test_a_cut_off_answer_is_noticed(self, route: Any, mock_judge: MockJudge):
        mock_judge.says(Reply('{"explanation": "Right, bec', finish_reason="length"))
        with pytest.raises(UnscoredError, match="cut off"):
            await route()

    async def test_the_route_retries_nothing_itself(self, route: Any, mock_judge: MockJudge):
        mock_judge.says(Reply(status=502, error="the provider is down"))
        with pytest.raises(ProviderRequestError, match="the provider is down") as failed:
            await route()
        assert failed.value.status == 502
        assert len(mock_judge.requests) == 1

    async def test_a_time_limit_can_be_set(self, route: Any, mock_judge: MockJudge):
        mock_judge.says(Reply(delay_s=2.0))
        with pytest.raises(ProviderRequestError, match=r"no answer within 0\.1 s"):
            await route(timeout=0.1)

    async def test_an_own_model_is_possible_too(self, route: Any, mock_judge: MockJudge):
        await route(model="openai/m", base_url=mock_judge.url, api_key="sk-own")
        assert mock_judge.keys == ["Bearer sk-own"]

    async def test_outside_a_grader_there_is_no_route(self):
        with pytest.raises(RuntimeError, match=r"grade.*model="):
            await evaluate_rubric(solution_str="42", rubric="Is it right?")


def test_a_score_is_a_reward():
    sample = RolloutSample(messages=[])
    GraderContext(sample=sample).set_reward(RubricResult(0.75, "x").score)
    assert json.loads(sample.model_dump_json())["reward"] == 0.75
