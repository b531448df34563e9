"""``replay/RUN``: the answers of an earlier run, and a typed miss for everything else."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import pytest

from osmosis.evaluation.gateway import kept_calls
from osmosis.evaluation.plan import KeptSample, ReplaySource
from osmosis.wire.errors import RunFailed
from tests.evaluation.gateway.test_streaming import events
from tests.evaluation.gateway.upstream import (
    HELLO,
    KEY,
    WHOLE_STREAM,
    Bench,
    completion,
    fails,
    says,
    streams,
)

PATH = "replay/calm-otter"


def source(samples: Iterable[KeptSample]) -> ReplaySource:
    async def fetch() -> Iterable[KeptSample]:
        return samples

    return ReplaySource("calm-otter", "calm-otter-01", "openai/the-model", fetch)


def at(bench: Bench, source_row: int, run_index: int) -> Bench:
    bench.session = bench.gateway.open_session(
        f"{source_row:016x}{run_index:016x}", source_row=source_row, run_index=run_index
    )
    return bench


def kept(bench: Bench, source_row: int = 0, run_index: int = 0) -> KeptSample:
    return KeptSample(source_row, run_index, base64.b64decode(bench.session.kept_calls or ""))


@pytest.fixture
def replay(make_bench):
    async def start(*samples: KeptSample, **more: Any) -> Bench:
        return await make_bench(PATH, replays=(source(samples),), env={}, secrets={}, **more)

    return start


async def told(bench: Bench, **body: Any) -> str:
    status, answer, _ = await bench.post(**body)
    assert status == 200, answer
    return answer["choices"][0]["message"]["content"]


async def missed(bench: Bench, **body: Any) -> str:
    status, answer, headers = await bench.post(**body)
    assert status == 404, answer
    assert answer["error"]["code"] == "replay_miss"
    assert headers["x-should-retry"] == "false"
    assert bench.session.calls[-1].error_kind == "replay_miss"
    assert bench.session.calls[-1].upstream_requests == 0
    return answer["error"]["message"]


async def test_each_sample_gets_its_own_answers_in_order_and_no_model_is_asked(
    make_bench, replay, upstream
):
    upstream.answers = [says(completion(f"draw {number}")) for number in range(6)]
    first = await make_bench()
    samples = []
    for place in ((0, 0), (0, 1), (7, 0)):
        at(first, *place)
        await first.post()
        await first.post()
        samples.append(kept(first, *place))
    again = await replay(*samples)
    await again.gateway.preflight()
    texts = []
    for place in ((7, 0), (0, 1), (0, 0)):
        at(again, *place)
        texts += [await told(again), await told(again)]
    assert texts == ["draw 4", "draw 5", "draw 2", "draw 3", "draw 0", "draw 1"]
    assert upstream.hits == 6
    call = again.session.calls[0]
    assert (call.replayed, call.cost_usd, call.upstream_requests) == (True, 0.0, 0)
    assert call.model == PATH
    assert call.latency_s > 0
    described = again.gateway.describe()
    assert described["replay"] == {"run": "calm-otter-01", "model": "openai/the-model"}
    assert any("No model is asked" in line for _, line in again.log.lines)


async def test_what_a_call_cost_is_what_its_replay_saves_and_so_on(make_bench, replay, upstream):
    upstream.answers = [says(completion(usage={"prompt_tokens": 1, "cost": 0.25}))]
    first = await make_bench(
        "openrouter/a/b",
        env={"OPENROUTER_API_BASE": upstream.base_url},
        secrets={"OPENROUTER_API_KEY": "sk-or-0123"},
    )
    await first.post()
    second = await replay(kept(first))
    await second.post()
    third = await replay(kept(second))
    await third.post()
    for bench in (second, third):
        assert bench.session.calls[0].saved_usd == 0.25
        assert bench.session.calls[0].cost_usd == 0.0
        first_s = first.session.calls[0].latency_s
        assert bench.session.calls[0].latency_s == pytest.approx(first_s, abs=1e-6)


async def test_rows_that_moved_find_their_answers_but_runs_of_a_row_are_not_lent(
    make_bench, replay
):
    first = await make_bench()
    await first.post()
    again = await replay(kept(first, source_row=3))
    assert await told(at(again, 4, 0)) == "hi there"
    text = await missed(at(again, 3, 1))
    assert "source row 3, run 1" in text
    assert "1 other runs of that row" in text


async def test_a_streaming_client_gets_a_stream(make_bench, replay, upstream):
    upstream.answers = [streams(*WHOLE_STREAM)]
    first = await make_bench()
    await first.post(stream=True)
    again = await replay(kept(first))
    async with again.open(stream=True) as response:
        events_told = events(await response.read())
    assert events_told[-1][1] == "[DONE]"
    at(again, 0, 0)
    assert await told(again) == "one two"


SYSTEM = {"role": "system", "content": "You multiply."}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"messages": [{**SYSTEM, "content": "You divide."}, *HELLO]},
            "messages[0] (system) differs: 'You multiply.' there, 'You divide.' here",
        ),
        (
            {"messages": [{**SYSTEM, "role": "developer"}, *HELLO]},
            "messages[0].role differs: system there, developer here",
        ),
        ({"messages": [SYSTEM]}, "messages[1] (user) is missing: 'hello'"),
        (
            {"messages": [SYSTEM, *HELLO, {"role": "user", "content": "more"}]},
            "messages[2] (user) is new: 'more'",
        ),
        ({"temperature": 0.7}, "temperature differs: 0.1 there, 0.7 here"),
        ({"temperature": 0.1, "seed": 3, "top_p": 1}, "seed differs (and top_p): not set there"),
        (
            {"messages": [SYSTEM, {"role": "user", "content": "hello", "name": "ada"}]},
            "messages[1] (user) differs, though both begin with 'hello'",
        ),
    ],
)
async def test_a_miss_names_the_sample_and_the_first_thing_that_differs(
    make_bench, replay, change, said
):
    asked = {"messages": [SYSTEM, *HELLO], "temperature": 0.1}
    first = await make_bench()
    await first.post(**asked)
    again = at(await replay(kept(first, source_row=5)), 5, 0)
    text = await missed(again, **{**asked, **change})
    assert "Policy call 1 of source row 5, run 0 has no answer in the run 'calm-otter-01'" in text
    assert said in text


async def test_a_long_text_is_shown_where_it_begins_to_differ(make_bench, replay):
    first = await make_bench()
    await first.post(messages=[{"role": "user", "content": "a" * 80 + " seven times eight"}])
    again = await replay(kept(first))
    text = await missed(again, messages=[{"role": "user", "content": "a" * 80 + " nine times"}])
    assert "seven times eight' there" in text
    assert "nine times' here" in text


async def test_asked_once_more_than_there_is_a_miss(make_bench, replay):
    first = await make_bench()
    await first.post()
    again = await replay(kept(first))
    await told(again)
    assert "answered once there, and is asked for the 2nd time" in await missed(again)


async def test_a_call_that_failed_there_fails_here_in_the_same_way(make_bench, replay, upstream):
    upstream.answers = [fails(429, "slow down"), fails(400, "not so"), says(completion("ok"))]
    first = await make_bench(advanced={"max_retries": 0})
    other = {"messages": [{"role": "user", "content": "other"}]}
    await first.post()
    await first.post(**other)
    await first.post(**other)
    again = await replay(kept(first))
    status, body, _ = await again.post()
    assert (status, again.session.calls[-1].error_kind) == (429, "rate_limit")
    assert "slow down" in body["error"]["message"]
    assert "As in the run 'calm-otter-01'" in body["error"]["message"]
    assert await told(again, **other) == "ok", "what the client's own repetition brought"


async def test_an_answer_with_a_secret_value_is_missed_and_says_why(make_bench, replay, upstream):
    upstream.answers = [says(completion(f"it is {KEY}"))]
    first = await make_bench()
    await first.post()
    again = await replay(kept(first))
    text = await missed(again)
    assert "held a secret value" in text
    assert KEY not in text


async def test_the_judge_may_be_replayed_too_with_its_own_calls(make_bench, replay, upstream):
    upstream.answers = [says(completion("policy")), says(completion("judge"))]
    first = await make_bench(advanced={"judge_model": "openai/the-judge"})
    await first.post()
    await first.post(judge=True)
    again = await replay(kept(first), advanced={"judge_model": PATH})
    await again.gateway.preflight()
    assert await told(again, judge=True) == "judge"
    assert await told(again) == "policy"
    at(again, 9, 0)
    assert "Judge call 1" in await missed(
        again, judge=True, messages=[{"role": "user", "content": "?"}]
    )


async def test_a_run_without_kept_calls_and_an_unknown_one_end_the_run_before_any_row(
    replay, make_bench
):
    with pytest.raises(RunFailed, match="no kept calls") as none:
        await (await replay()).gateway.preflight()
    with pytest.raises(RunFailed, match="no run 'nobody'") as unknown:
        await (await make_bench("replay/nobody")).gateway.preflight()
    assert {none.value.kind, unknown.value.kind} == {"replay_unavailable"}


async def test_damaged_calls_are_missed_and_counted(make_bench, replay):
    first = await make_bench()
    await first.post()
    good = kept(first)
    torn = KeptSample(1, 0, good.packed[:-9])
    again = await replay(good, torn)
    await again.gateway.preflight()
    assert any("those of 1 are damaged" in line for _, line in again.log.lines)
    await told(again)


async def test_a_conversation_is_replayed_step_by_step(make_bench, replay, upstream, monkeypatch):
    monkeypatch.setattr(kept_calls, "MEMBER_BYTES", 300)
    upstream.answers = [says(completion(f"turn {number}")) for number in range(12)]

    async def talk(bench: Bench) -> list[str]:
        messages = list(HELLO)
        texts = []
        for _ in range(12):
            text = await told(bench, messages=messages)
            texts.append(text)
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "go"}]
        return texts

    first = await make_bench()
    texts = await talk(first)
    assert await talk(await replay(kept(first))) == texts
    assert upstream.hits == 12
