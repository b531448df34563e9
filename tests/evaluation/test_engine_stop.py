"""Stopping an evaluation, in every stage."""

from __future__ import annotations

import asyncio
import time

import pytest

from osmosis.evaluation.engine import evaluate
from osmosis.evaluation.plan import DRAINED
from tests.evaluation.engine_fakes import MemorySink, plan, rows, until


@pytest.mark.parametrize("gate", ["environment_gate", "preflight_gate", "start_gate"])
async def test_a_stop_during_start_up_is_idle_at_once(world, tmp_path, gate):
    setattr(world, gate, asyncio.Event())
    stop, sink = asyncio.Event(), MemorySink()
    task = asyncio.create_task(
        evaluate(plan(tmp_path), rows("reward 1"), set(), sink, stop, parts=world.parts())
    )
    await asyncio.sleep(0.1)
    began = time.monotonic()
    stop.set()
    outcome = await task
    assert (outcome.status, outcome.stop_reason) == ("stopped", "user")
    assert time.monotonic() - began < 2
    assert world.all_stopped and sink.records == []


async def test_a_stop_while_running_keeps_what_is_graded_and_cancels_the_rest(world, tmp_path):
    stop, sink = asyncio.Event(), MemorySink()
    scripts = ["reward 1", "reward 1", *["sleep 30"] * 20]
    task = asyncio.create_task(
        evaluate(plan(tmp_path), rows(*scripts), set(), sink, stop, parts=world.parts())
    )
    await until(lambda: len(sink.records) >= 2)
    began = time.monotonic()
    stop.set()
    outcome = await task
    assert outcome.status == "stopped"
    assert time.monotonic() - began < 3
    assert len(sink.records) == 2
    assert world.lives[0].cancelled_all and world.all_stopped and sink.flushed


async def test_a_stop_during_a_restart_of_the_rollout_is_idle_at_once(world, tmp_path):
    stop, sink = asyncio.Event(), MemorySink()
    task = asyncio.create_task(
        evaluate(plan(tmp_path), rows(*["sleep 30"] * 4), set(), sink, stop, parts=world.parts())
    )
    await until(lambda: world.most_in_flight >= 4)
    world.start_gate = asyncio.Event()
    await world.lives[0].die("exit code 1")
    await asyncio.sleep(0.3)
    stop.set()
    async with asyncio.timeout(5):
        outcome = await task
    assert outcome.status == "stopped"


async def test_a_stop_set_before_the_start_starts_nothing(world, tmp_path):
    stop = asyncio.Event()
    stop.set()
    outcome = await evaluate(
        plan(tmp_path), rows("reward 1"), set(), MemorySink(), stop, parts=world.parts()
    )
    assert outcome.status == "stopped"
    assert world.lives == []


async def test_a_stop_does_not_wait_for_a_sink_that_takes_nothing(world, tmp_path, monkeypatch):
    monkeypatch.setattr("osmosis.evaluation.engine.STOP_GRACE_S", 0.1)
    stop, sink = asyncio.Event(), MemorySink()
    sink.gate.clear()
    task = asyncio.create_task(
        evaluate(plan(tmp_path), rows(*["reward 1"] * 9), set(), sink, stop, parts=world.parts())
    )
    await until(lambda: len(world.started_prompts) >= 4)
    stop.set()
    async with asyncio.timeout(5):
        outcome = await task
    assert outcome.status == "stopped"


async def test_a_drain_finishes_what_is_in_flight_and_starts_nothing_more(world, tmp_path):
    drain, sink = asyncio.Event(), MemorySink()
    scripts = [*["sleep 0.3"] * 4, *["reward 1"] * 20]
    task = asyncio.create_task(
        evaluate(
            plan(tmp_path, selected_rows=24),
            rows(*scripts),
            set(),
            sink,
            asyncio.Event(),
            parts=world.parts(),
            drain=drain,
        )
    )
    await until(lambda: world.most_in_flight >= 4)
    drain.set()
    outcome = await task
    assert (outcome.status, outcome.stop_reason) == ("stopped", DRAINED)
    assert sorted(sink.by_row()) == [0, 1, 2, 3]
    assert world.all_stopped and sink.flushed


async def test_a_drain_during_start_up_is_idle_at_once(world, tmp_path):
    world.start_gate = asyncio.Event()
    drain, sink = asyncio.Event(), MemorySink()
    drain.set()
    async with asyncio.timeout(2):
        outcome = await evaluate(
            plan(tmp_path),
            rows("reward 1"),
            set(),
            sink,
            asyncio.Event(),
            parts=world.parts(),
            drain=drain,
        )
    assert (outcome.status, outcome.stop_reason) == ("stopped", DRAINED)
    assert world.all_stopped and sink.records == []
