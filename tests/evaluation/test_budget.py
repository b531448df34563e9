"""Budgets: what counts, when a run stops, and what it then says of itself."""

from __future__ import annotations

import asyncio

import pytest

from osmosis.evaluation.budget import Budget
from osmosis.evaluation.engine import evaluate
from osmosis.wire.samples import ModelCall
from osmosis.wire.spending import Spending
from osmosis.workspace.advanced import AdvancedSection
from tests.evaluation.engine_fakes import MemorySink, model_call, plan, rows, until


def call(tokens: int = 100, usd: float | None = 0.01, **more) -> ModelCall:
    values = {"prompt_tokens": tokens - 10, "completion_tokens": 10, "cost_usd": usd, **more}
    return model_call(**values)


def budget(spent: Spending | None = None, **advanced) -> Budget:
    return Budget(AdvancedSection(**advanced), spent)


def record_of(*calls: ModelCall):
    class Record:
        pass

    record = Record()
    record.calls = list(calls)
    return record


async def run(world, tmp_path, row_source, budget, *, stop=None, sink=None, **options):
    sink = sink or MemorySink()
    async with asyncio.timeout(30):
        outcome = await evaluate(
            plan(tmp_path, **options),
            row_source,
            options.pop("done", frozenset()),
            sink,
            stop or asyncio.Event(),
            parts=world.parts(),
            budget=budget,
        )
    assert world.all_stopped
    return outcome, sink


def test_policy_and_judge_count_and_answers_from_a_cache_do_not():
    given = budget(max_total_tokens=1000)
    given.add(call(100))
    given.add(call(200, route="judge"))
    given.add(call(5000, cached=True))
    given.add(call(5000, replayed=True))
    assert given.spent == Spending(tokens=300, usd=0.02)
    assert not given.is_spent


@pytest.mark.parametrize(
    ("limits", "key"),
    [({"max_total_tokens": 300}, "max_total_tokens"), ({"max_cost_usd": 0.03}, "max_cost_usd")],
)
def test_the_limit_is_told_once_when_it_is_reached(limits, key):
    given, told = budget(**limits), []
    given.on_spent = lambda: told.append(given.key)
    for _ in range(5):
        given.add(call(100, 0.01))
    assert told == [key]
    assert key in given.sentence()


def test_without_a_budget_nothing_is_ever_spent():
    given = budget()
    given.add(call(10**9, 1e6))
    assert not given.is_spent
    assert given.describe() == {}


def test_what_the_platform_has_counted_is_counted_once():
    given, own = budget(Spending(tokens=50), max_total_tokens=10_000), []
    given.on_own = own.append
    first, second = call(100, 0.1), call(100, 0.2)
    given.add(first)
    given.add(second)
    assert given.spent.tokens == 250
    given.acknowledged(Spending(tokens=150, usd=0.1), [record_of(first)])
    assert given.spent.tokens == 250
    given.acknowledged(Spending(tokens=950, usd=0.3), [record_of(second)])
    assert given.spent.tokens == 950, "other shards spent 700"
    assert own[-1] == Spending()


def test_another_shard_may_spend_the_last_of_it():
    given, told = budget(max_total_tokens=500), []
    given.on_spent = lambda: told.append(True)
    given.acknowledged(Spending(tokens=499), [])
    assert not told
    given.acknowledged(Spending(tokens=500), [])
    assert told


def test_answers_without_counts_are_named():
    given = budget(max_total_tokens=100)
    given.add(model_call(prompt_tokens=None))
    given.add(call(200))
    assert "1 answers came without token counts" in given.sentence()
    assert given.describe()["unmeasured_calls"] == 1


async def test_a_spent_budget_starts_no_new_sample_and_finishes_those_in_flight(world, tmp_path):
    world.used = {"prompt_tokens": 90, "completion_tokens": 10, "cost_usd": 0.01}
    scripts = ["sleep 0.05"] * 40
    outcome, sink = await run(
        world,
        tmp_path,
        rows(*scripts),
        budget(max_total_tokens=1000),
        batch_size=4,
        selected_rows=40,
    )
    assert (outcome.status, outcome.stop_reason, outcome.error) == ("stopped", "budget", None)
    assert outcome.stop_message.startswith("The budget is used up: 1,000 tokens of")
    assert len(sink.records) == 10
    assert {record.status for record in sink.records} == {"success"}
    assert sink.said("No new sample starts; 4 in flight are finished.") or sink.said("in flight")
    assert sink.flushed


async def test_a_budget_that_lasts_exactly_for_the_run_lets_it_finish(world, tmp_path):
    world.used = {"prompt_tokens": 90, "completion_tokens": 10}
    outcome, sink = await run(
        world, tmp_path, rows(*["reward 1"] * 4), budget(max_total_tokens=400), selected_rows=4
    )
    assert outcome.status == "finished"
    assert len(sink.records) == 4


async def test_a_budget_spent_before_stops_the_run_before_anything_starts(world, tmp_path):
    outcome, sink = await run(
        world,
        tmp_path,
        rows("reward 1"),
        budget(Spending(usd=5), max_cost_usd=5),
        selected_rows=1,
    )
    assert (outcome.status, outcome.stop_reason) == ("stopped", "budget")
    assert "max_cost_usd" in outcome.stop_message
    assert world.lives == []
    assert sink.records == []


async def test_a_user_may_stop_a_run_that_is_draining(world, tmp_path):
    world.used = {"prompt_tokens": 90, "completion_tokens": 10}
    stop, sink = asyncio.Event(), MemorySink()
    running = asyncio.create_task(
        run(
            world,
            tmp_path,
            rows(*["sleep 30"] * 5),
            budget(max_total_tokens=50),
            stop=stop,
            sink=sink,
            selected_rows=5,
        )
    )
    await until(lambda: sink.said("The budget is used up"))
    stop.set()
    outcome, _ = await running
    assert (outcome.status, outcome.stop_reason) == ("stopped", "user")


async def test_new_samples_wait_while_the_provider_has_no_room(world, tmp_path):
    world.room = asyncio.Event()
    running = asyncio.create_task(
        run(world, tmp_path, rows(*["reward 1"] * 3), budget(), selected_rows=3)
    )
    await until(lambda: world.lives)
    await asyncio.sleep(0.05)
    assert world.started_prompts == []
    world.room.set()
    outcome, sink = await running
    assert outcome.status == "finished"
    assert len(sink.records) == 3
