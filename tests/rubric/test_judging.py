"""Many records: bounded, in order, resumable, and never more requests than are of use."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from osmosis.evaluation.redaction import Redactor
from osmosis.rubric.conversations import BadRecord, Record
from osmosis.rubric.journal import Journal, journal_path
from osmosis.rubric.judge import Judge
from osmosis.rubric.judging import Judging
from osmosis.rubric.models import open_link
from osmosis.rubric.prompt import Material, Task
from osmosis.wire.errors import Conflict
from tests.rubric.conftest import MockJudge, Reply

TASK = Task("Is it right?")


def records(*texts: str) -> list[Record | BadRecord]:
    return [
        Record(n, f"r{n}", f"line {n}", Material(text))
        if text
        else BadRecord(n, f"r{n}", f"line {n}", "it is not JSON")
        for n, text in enumerate(texts, start=1)
    ]


async def judge_all(
    mock_judge: MockJudge,
    found: list[Record | BadRecord],
    *,
    models: tuple[str, ...] = ("m",),
    number: int = 1,
    concurrency: int = 4,
    journal: Journal | None = None,
    task: Task = TASK,
    base_url: str | None = None,
) -> Judging:
    judges = [
        Judge(
            await open_link(
                f"openai/{model}",
                variables={},
                base_url=base_url or mock_judge.url,
                max_retries=0,
                concurrency=concurrency,
            )
        )
        for model in models
    ]
    judging = Judging(judges, task, number=number, concurrency=concurrency, journal=journal)
    try:
        await judging.run(found)
    finally:
        for judge in judges:
            await judge.link.close()
    return judging


def candidate(body: dict[str, Any]) -> str:
    lines = body["messages"][1]["content"].split("\n")
    begin = next(n for n, line in enumerate(lines) if line.startswith("<<<BEGIN_CANDIDATE"))
    return json.loads(lines[begin + 1])


async def test_outcomes_have_the_order_of_the_records_whatever_order_answers_have(
    mock_judge: MockJudge,
):
    def by_length(body: dict[str, Any]) -> Reply:
        size = len(candidate(body))
        return Reply(json.dumps({"explanation": "x", "score": size / 10}), delay_s=0.2 / size)

    mock_judge.answer = by_length
    judging = await judge_all(mock_judge, records("a", "", "aaa", "aa"), number=2)
    scores = [[j.score for _, j in sorted(o.judgements.items())] for o in judging.outcomes]
    assert scores == [[0.1, 0.1], [], [0.3, 0.3], [0.2, 0.2]]
    assert [outcome.problem for outcome in judging.outcomes][1] == "it is not JSON"
    counts = judging.counts
    assert (counts.scored, counts.bad_records, counts.done) == (6, 1, 6)


async def test_no_more_calls_are_in_flight_than_asked_for_and_records_are_read_as_needed(
    mock_judge: MockJudge,
):
    taken = 0

    def lazily() -> Any:
        nonlocal taken
        for record in records(*"abcdefghijklmnopqrstuvwxyz"):
            taken += 1
            assert taken - len(mock_judge.requests) <= 4
            yield record

    mock_judge.says(Reply(delay_s=0.01))
    await judge_all(mock_judge, lazily(), concurrency=3)
    assert mock_judge.most_in_flight == 3
    assert len(mock_judge.requests) == 26


async def test_every_judge_judges_every_record_as_often_as_asked(mock_judge: MockJudge):
    judging = await judge_all(mock_judge, records("a", "b"), models=("x", "y"), number=3)
    assert [sorted(outcome.judgements) for outcome in judging.outcomes] == [
        [(judge, run) for judge in (0, 1) for run in (0, 1, 2)]
    ] * 2
    assert sorted(body["model"] for body in mock_judge.requests) == ["x"] * 6 + ["y"] * 6


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_judge_that_rejects_the_key_or_the_model_is_not_asked_for_every_record(
    mock_judge: MockJudge, status: int
):
    mock_judge.says(Reply(status=status, error="no such model, or no such key"))
    judging = await judge_all(mock_judge, records(*"abcdefgh"), concurrency=2)
    assert len(mock_judge.requests) <= 2
    assert judging.counts.failed == 8
    last = judging.outcomes[-1].judgements[0, 0]
    assert (last.status, last.http_status, last.asks) == ("failed", status, 0)
    assert "no such model" in (last.reason or "")


async def test_one_judge_that_is_rejected_leaves_the_other_at_work(mock_judge: MockJudge):
    def only_x(body: dict[str, Any]) -> Reply:
        return Reply() if body["model"] == "x" else Reply(status=401, error="rejected")

    mock_judge.answer = only_x
    judging = await judge_all(mock_judge, records(*"abcd"), models=("x", "y"), concurrency=1)
    assert (judging.counts.scored, judging.counts.failed) == (4, 4)
    assert [body["model"] for body in mock_judge.requests].count("y") == 1


async def test_a_text_that_the_provider_forbids_ends_nothing_once_the_judge_has_answered(
    mock_judge: MockJudge,
):
    def forbid_b(body: dict[str, Any]) -> Reply:
        return Reply(status=403, error="moderated") if candidate(body) == "b" else Reply()

    mock_judge.answer = forbid_b
    judging = await judge_all(mock_judge, records("a", "b", "c"), concurrency=1)
    assert (judging.counts.scored, judging.counts.failed) == (2, 1)


async def test_an_address_where_nobody_is_ends_soon(mock_judge: MockJudge):
    nowhere = "http://127.0.0.1:9/v1"
    judging = await judge_all(mock_judge, records(*"abcdefgh"), concurrency=1, base_url=nowhere)
    asks = [o.judgements[0, 0].asks for o in judging.outcomes]
    assert asks == [1, 0, 0, 0, 0, 0, 0, 0]


class TestGoingOn:
    """What is kept beside the report while it is made."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return journal_path(tmp_path / "deep" / "report.json")

    async def run(self, mock_judge: MockJudge, path: Path, *texts: str, **more: Any) -> Judging:
        mock_judge.requests.clear()
        with Journal(path, Redactor([])) as journal:
            return await judge_all(mock_judge, records(*texts), journal=journal, **more)

    async def test_scores_are_kept_and_the_rest_is_asked_again(
        self, mock_judge: MockJudge, path: Path
    ):
        def only_a(body: dict[str, Any]) -> Reply | str:
            text = candidate(body)
            return Reply() if text == "a" else "mumble" if text == "b" else Reply(status=503)

        mock_judge.answer = only_a
        await self.run(mock_judge, path, "a", "b", "c")
        mock_judge.answer = lambda _: Reply()
        judging = await self.run(mock_judge, path, "c", "a", "b")
        assert sorted(candidate(body) for body in mock_judge.requests) == ["b", "c"]
        assert (judging.counts.scored, judging.counts.kept) == (3, 1)
        assert judging.outcomes[1].judgements[0, 0].explanation == "It is right."

    async def test_equal_records_and_repeats_are_kept_one_by_one(
        self, mock_judge: MockJudge, path: Path
    ):
        await self.run(mock_judge, path, "a", number=2)
        assert len(mock_judge.requests) == 2
        await self.run(mock_judge, path, "a", "a", number=3)
        assert len(mock_judge.requests) == 4
        await self.run(mock_judge, path, "a", "a", number=3)
        assert mock_judge.requests == []

    async def test_what_a_judge_refuses_makes_no_other_question(
        self, mock_judge: MockJudge, path: Path
    ):
        refusal = Reply(status=400, error="temperature is not supported")
        mock_judge.answer = lambda body: refusal if "temperature" in body else Reply()
        await self.run(mock_judge, path, *"abcd", concurrency=1)
        await self.run(mock_judge, path, *"abcd", concurrency=1)
        assert mock_judge.requests == []

    @pytest.mark.parametrize(
        "other",
        [
            {"task": Task("Is it wrong?")},
            {"task": Task("Is it right?", 0, 10)},
            {"task": Task("Is it right?", system_prompt="Be strict.")},
            {"models": ("other",)},
        ],
    )
    async def test_another_question_finds_nothing_kept(
        self, mock_judge: MockJudge, path: Path, other: dict[str, Any]
    ):
        await self.run(mock_judge, path, "a")
        await self.run(mock_judge, path, "a", **other)
        assert len(mock_judge.requests) == 1

    async def test_a_cut_line_and_foreign_lines_are_passed_over(
        self, mock_judge: MockJudge, path: Path
    ):
        await self.run(mock_judge, path, "a", "b")
        raw = path.read_bytes()
        path.write_bytes(b'{"key": 1}\nnot json\n' + raw[:-20])
        await self.run(mock_judge, path, "a", "b")
        assert len(mock_judge.requests) == 1
        await self.run(mock_judge, path, "a", "b")
        assert mock_judge.requests == []

    async def test_a_kill_in_the_middle_loses_no_score(self, mock_judge: MockJudge, path: Path):
        loop, asked_d = asyncio.get_running_loop(), asyncio.Event()

        def stuck_at_d(body: dict[str, Any]) -> Reply:
            if candidate(body) < "d":
                return Reply()
            loop.call_soon_threadsafe(asked_d.set)
            return Reply(delay_s=30.0)

        mock_judge.answer = stuck_at_d
        task = asyncio.create_task(self.run(mock_judge, path, *"abcdef", concurrency=1))
        await asked_d.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        mock_judge.answer = lambda _: Reply()
        await self.run(mock_judge, path, *"abcdef")
        assert sorted(candidate(body) for body in mock_judge.requests) == ["d", "e", "f"]

    def test_two_commands_do_not_write_one_report(self, path: Path):
        with Journal(path, Redactor([])), pytest.raises(Conflict, match="Another"):
            Journal(path, Redactor([]))

    async def test_no_secret_is_kept(self, mock_judge: MockJudge, path: Path):
        mock_judge.says('{"explanation": "the key is sk-canary-123", "score": 1}')
        with Journal(path, Redactor(["sk-canary-123"])) as journal:
            await judge_all(mock_judge, records("a"), journal=journal)
        assert "canary" not in path.read_text()
