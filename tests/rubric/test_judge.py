"""One judge over HTTP: what it is asked, what becomes of its answers and of its refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from osmosis.rubric.judge import Judge, Judgement
from osmosis.rubric.models import open_link
from osmosis.rubric.prompt import Material, Task
from osmosis.rubric.request_shape import RequestShape
from tests.rubric.conftest import GOOD, MockJudge, Reply
from tests.rubric.corpora import answers

TASK = Task("Is it right?")
Judging = Callable[..., Any]


@pytest.fixture
async def ask(mock_judge: MockJudge) -> AsyncIterator[Judging]:
    """Judge one text with the mock; the judge is kept between calls of a test."""
    judges: dict[str, Judge] = {}

    async def judge_once(
        task: Task = TASK,
        material: Material | None = None,
        *,
        shape: RequestShape | None = None,
        **link: Any,
    ) -> Judgement:
        if "one" not in judges:
            options = {"timeout_s": 20.0, "max_retries": 2, "base_url": mock_judge.url, **link}
            opened = await open_link("openai/m", variables={}, **options)
            judges["one"] = Judge(opened, shape)
        return await judges["one"].judge(task, material or Material("42"))

    yield judge_once
    for judge in judges.values():
        await judge.link.close()


def sent(mock_judge: MockJudge) -> list[dict[str, Any]]:
    """The optional parameters of each request; of a format only its type."""
    found = []
    for body in mock_judge.requests:
        shown = {key: value for key, value in body.items() if key not in ("messages", "model")}
        if "response_format" in shown:
            shown["response_format"] = shown["response_format"]["type"]
        found.append(shown)
    return found


SCHEMA = {"response_format": "json_schema", "temperature": 0.0}


async def test_the_first_request_offers_a_strict_schema(ask: Judging, mock_judge: MockJudge):
    judgement = await ask()
    assert (judgement.status, judgement.score, judgement.explanation) == (
        "scored",
        0.75,
        "It is right.",
    )
    assert (judgement.asks, judgement.raw) == (1, ())
    assert (judgement.prompt_tokens, judgement.completion_tokens) == (10, 5)
    (body,) = mock_judge.requests
    schema = body["response_format"]["json_schema"]
    assert (schema["name"], schema["strict"]) == ("rubric_response", True)
    assert set(schema["schema"]["required"]) == {"score", "explanation"}
    assert sent(mock_judge) == [SCHEMA]


REFUSALS = {
    "temperature": (
        "Unsupported value: 'temperature' does not support 0 with this model.",
        {"response_format": "json_schema"},
    ),
    "schema": (
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported",
        {"response_format": "json_object", "temperature": 0.0},
    ),
    "nothing named": ("Bad request", {"response_format": "json_object", "temperature": 0.0}),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("status", [400, 422])
async def test_a_refused_parameter_is_given_up_and_remembered(
    ask: Judging, mock_judge: MockJudge, name: str, status: int
):
    message, then = REFUSALS[name]
    mock_judge.says(Reply(status=status, error=message), GOOD)
    assert (await ask()).score == 0.75
    assert (await ask()).score == 0.75
    assert sent(mock_judge) == [SCHEMA, then, then]


async def test_a_judge_that_takes_nothing_is_asked_plainly(ask: Judging, mock_judge: MockJudge):
    def plain_only(body: dict[str, Any]) -> Reply:
        extra = set(body) - {"messages", "model"}
        return Reply() if not extra else Reply(status=400, error="Extra inputs are not permitted")

    mock_judge.answer = plain_only
    assert (await ask(shape=RequestShape(max_tokens=50))).score == 0.75
    assert sent(mock_judge)[-1] == {}
    before = len(mock_judge.requests)
    assert (await ask()).score == 0.75
    assert len(mock_judge.requests) == before + 1


async def test_a_judge_that_renames_the_limit_gets_it_by_its_name(
    ask: Judging, mock_judge: MockJudge
):
    error = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    mock_judge.says(Reply(status=400, error=error), GOOD)
    assert (await ask(shape=RequestShape(max_tokens=50))).score == 0.75
    assert sent(mock_judge)[1] == {**SCHEMA, "max_completion_tokens": 50}


async def test_a_judge_that_knows_no_limit_at_all_gets_none(ask: Judging, mock_judge: MockJudge):
    def no_limit(body: dict[str, Any]) -> Reply:
        limits = [name for name in body if name.startswith("max_")]
        return Reply(status=400, error=f"Unknown parameter {limits[0]}") if limits else Reply()

    mock_judge.answer = no_limit
    assert (await ask(shape=RequestShape(max_tokens=50))).score == 0.75
    assert sent(mock_judge)[-1] == SCHEMA
    assert len(mock_judge.requests) == 3


async def test_a_server_that_breaks_on_a_schema_is_asked_without(
    ask: Judging, mock_judge: MockJudge
):
    mock_judge.says(Reply(status=500, error="failed to parse grammar"), GOOD)
    assert (await ask()).score == 0.75
    assert [shape.get("response_format") for shape in sent(mock_judge)] == [
        "json_schema",
        "json_object",
    ]


async def test_an_unknown_model_is_told_with_those_that_are_served(
    ask: Judging, mock_judge: MockJudge
):
    mock_judge.models = ["mm", "other"]
    mock_judge.says(Reply(status=404, error="The model `m` does not exist."))
    judgement = await ask()
    assert judgement.http_status == 404
    assert judgement.reason.startswith("The model `m` does not exist. It serves: mm, other.")
    assert len(mock_judge.requests) == 1


async def test_a_refusal_of_the_text_takes_nothing_from_the_next_one(
    ask: Judging, mock_judge: MockJudge
):
    long = "This model's maximum context length is 1024 tokens"
    mock_judge.says(Reply(status=400, error=long), GOOD)
    failed = await ask()
    assert (failed.status, failed.http_status, failed.score) == ("failed", 400, None)
    assert "maximum context length" in failed.reason
    assert (await ask()).score == 0.75
    assert sent(mock_judge) == [SCHEMA, SCHEMA]


async def test_forms_given_up_in_vain_are_not_remembered(ask: Judging, mock_judge: MockJudge):
    mock_judge.says(*[Reply(status=400, error="No.")] * 4, GOOD)
    assert (await ask()).status == "failed"
    assert len(mock_judge.requests) == 4
    await ask()
    assert sent(mock_judge)[-1] == SCHEMA


@pytest.mark.parametrize("case", answers(), ids=lambda case: case.name)
async def test_whatever_a_judge_answers_it_is_asked_at_most_twice_and_never_misread(
    ask: Judging, mock_judge: MockJudge, case: Any
):
    mock_judge.says(Reply(case.answer, finish_reason=case.finish))
    low, high = case.range
    judgement = await ask(Task("Is it right?", low, high), Material(case.judged))
    assert judgement.score == case.score
    if case.score is None:
        assert (judgement.status, judgement.asks) == ("unscored", 2)
        assert judgement.raw == (case.answer[:20_000],) * 2
        assert judgement.reason
    else:
        assert (judgement.status, judgement.asks) == ("scored", 1)
    assert len(mock_judge.requests) == judgement.asks


async def test_the_second_request_says_what_was_wrong_and_quotes_nothing(
    ask: Judging, mock_judge: MockJudge
):
    mock_judge.says('{"score": 7.125, "explanation": "so good"}', GOOD)
    judgement = await ask()
    assert (judgement.score, judgement.asks) == (0.75, 2)
    assert judgement.raw == ('{"score": 7.125, "explanation": "so good"}',)
    assert (judgement.prompt_tokens, judgement.completion_tokens) == (20, 10)
    first, second = (body["messages"] for body in mock_judge.requests)
    assert [message["role"] for message in second] == ["system", "user"]
    assert second[1]["content"].startswith(first[1]["content"])
    added = second[1]["content"].removeprefix(first[1]["content"])
    assert "outside the range 0 to 1" in added
    assert "7.125" not in added
    assert "so good" not in added


def bounded(body: dict[str, Any]) -> bool:
    schema = body["response_format"].get("json_schema", {}).get("schema", {})
    return "maxLength" in str(schema)


async def test_a_judge_that_did_not_come_to_an_end_gets_a_bounded_schema(
    ask: Judging, mock_judge: MockJudge
):
    endless = '{"explanation": "It is right, it is right, it is right, '
    mock_judge.says(Reply(endless, finish_reason="length"), GOOD)
    judgement = await ask()
    assert (judgement.score, judgement.asks) == (0.75, 2)
    await ask()
    assert [bounded(body) for body in mock_judge.requests] == [False, True, False]


async def test_a_provider_that_refuses_the_bound_gets_the_plain_schema(
    ask: Judging, mock_judge: MockJudge
):
    refusal = "Invalid schema for response_format: 'maxLength' is not permitted."
    mock_judge.says(
        Reply("{", finish_reason="length"), Reply(status=400, error=refusal), Reply(GOOD)
    )
    assert (await ask()).score == 0.75
    assert [bounded(body) for body in mock_judge.requests] == [False, True, False]
    assert sent(mock_judge) == [SCHEMA] * 3


async def test_a_refusal_in_its_own_field_is_told(ask: Judging, mock_judge: MockJudge):
    mock_judge.says(Reply(None, message={"refusal": "I must not."}))
    judgement = await ask()
    assert (judgement.status, judgement.raw) == ("unscored", ("I must not.",) * 2)
    assert "I must not." in judgement.reason


async def test_reasoning_beside_the_content_is_no_verdict(ask: Judging, mock_judge: MockJudge):
    mock_judge.says(Reply("", message={"reasoning_content": GOOD}))
    assert (await ask()).status == "unscored"


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_judge_that_is_busy_is_asked_again_in_one_layer(
    ask: Judging, mock_judge: MockJudge, status: int
):
    busy = Reply(status=status, error="busy", headers={"Retry-After": "0"})
    mock_judge.says(busy, GOOD)
    assert (await ask()).score == 0.75
    assert len(mock_judge.requests) == 2


async def test_no_retries_means_one_request(ask: Judging, mock_judge: MockJudge):
    mock_judge.says(Reply(status=503, error="down", headers={"Retry-After": "0"}))
    judgement = await ask(max_retries=0)
    assert (judgement.status, judgement.http_status, judgement.asks) == ("failed", 503, 1)
    assert len(mock_judge.requests) == 1


async def test_a_slow_answer_is_waited_for_once_more_with_twice_the_time(
    ask: Judging, mock_judge: MockJudge
):
    mock_judge.says(Reply(delay_s=5.0))
    judgement = await ask(timeout_s=0.15)
    assert (judgement.status, judgement.kind) == ("failed", "timeout")
    assert "no answer within 0.3 s" in judgement.reason
    assert len(mock_judge.requests) == 2


async def test_a_failure_on_the_second_asking_keeps_the_first_answer(
    ask: Judging, mock_judge: MockJudge
):
    mock_judge.says("nothing", Reply(status=401, error="key revoked"))
    judgement = await ask()
    assert (judgement.status, judgement.kind, judgement.asks) == ("failed", "auth", 2)
    assert judgement.raw == ("nothing",)


async def test_nobody_at_the_address_is_a_failure(ask: Judging):
    judgement = await ask(base_url="http://127.0.0.1:9/v1", max_retries=0)
    assert (judgement.status, judgement.kind) == ("failed", "connection")
    assert judgement.http_status is None
