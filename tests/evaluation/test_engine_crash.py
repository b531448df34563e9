"""A rollout process that dies or hangs: the guilty sample is found, the others complete."""

from __future__ import annotations

import asyncio

import pytest

from osmosis.workspace.advanced import AdvancedSection
from tests.evaluation.engine_fakes import MemorySink, rows, until
from tests.evaluation.test_engine import run


async def test_one_poison_row_among_many_is_found_and_the_others_complete(world, tmp_path):
    scripts = ["sleep 0.02"] * 24
    scripts[13] = "crash"
    outcome, sink = await run(world, tmp_path, rows(*scripts), batch_size=8, selected_rows=24)
    assert outcome.status == "finished"
    assert len(sink.records) == 24
    failed = [record for record in sink.records if record.status == "failed"]
    assert [record.row_index for record in failed] == [13]
    assert failed[0].error_type == "rollout_crashed"
    assert "exit code 7" in failed[0].error_message and "os._exit" in failed[0].error_message
    assert failed[0].tries >= 2


async def test_two_poison_rows_side_by_side_are_both_found(world, tmp_path):
    scripts = ["sleep 0.02"] * 16
    scripts[4] = scripts[5] = "crash"
    outcome, sink = await run(world, tmp_path, rows(*scripts), batch_size=8, selected_rows=16)
    assert outcome.status == "finished"
    assert {r.row_index for r in sink.records if r.error_type == "rollout_crashed"} == {4, 5}
    assert len(sink.records) == 16


async def test_a_process_killed_from_outside_blames_nobody(world, tmp_path):
    sink = MemorySink()
    task = asyncio.create_task(
        run(world, tmp_path, rows(*["sleep 0.1"] * 20), sink, batch_size=4, selected_rows=20)
    )
    for kills in range(1, 4):
        await until(lambda n=kills: len(world.lives) >= n and len(sink.records) >= 3 * n)
        await world.lives[-1].die("killed by SIGKILL")
    outcome, _ = await task
    assert outcome.status == "finished"
    assert len(sink.records) == 20
    assert {record.status for record in sink.records} == {"success"}


async def test_a_process_that_dies_again_while_it_starts_is_started_once_more(world, tmp_path):
    world.failed_restarts = 2
    sink = MemorySink()
    task = asyncio.create_task(
        run(world, tmp_path, rows(*["sleep 0.1"] * 12), sink, batch_size=4, selected_rows=12)
    )
    await until(lambda: len(sink.records) >= 3)
    await world.lives[-1].die("killed by SIGKILL")
    outcome, _ = await task
    assert outcome.status == "finished"
    assert {record.status for record in sink.records} == {"success"}


async def test_a_process_that_never_starts_again_ends_the_run(world, tmp_path):
    world.failed_restarts = 3
    outcome, _ = await run(world, tmp_path, rows("reward 1", "crash"), batch_size=1)
    assert outcome.error.kind == "rollout_start_failed"


async def test_one_at_a_time_a_poison_row_dies_twice_and_the_run_goes_on(world, tmp_path):
    outcome, sink = await run(world, tmp_path, rows("reward 1", "crash", "reward 1"), batch_size=1)
    assert outcome.status == "finished"
    assert [r.error_type for r in sink.records] == [None, "rollout_crashed", None]
    assert sink.by_row()[1].tries == 2


async def test_an_out_of_memory_row_needs_more_deaths_but_is_found(world, tmp_path):
    _, sink = await run(world, tmp_path, rows("killed", "reward 1"), batch_size=1)
    assert sink.by_row()[0].error_type == "rollout_crashed"
    assert sink.by_row()[0].tries == 4


async def test_a_rollout_that_always_dies_ends_the_run_and_leaves_the_rest_pending(world, tmp_path):
    outcome, sink = await run(
        world, tmp_path, rows(*["crash"] * 40), batch_size=4, selected_rows=40
    )
    assert outcome.error.kind == "rollout_crashed"
    assert len(sink.records) < 12
    assert len(world.lives) < 16


async def test_a_blocked_event_loop_is_killed_and_only_the_blocker_is_blamed(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr("osmosis.evaluation.rollout_host.PROBE_AFTER_S", 0.1)
    monkeypatch.setattr("osmosis.evaluation.rollout_host.BLOCKED_GRACE_S", 0.2)
    monkeypatch.setattr("osmosis.evaluation.rollout_host.BLOCKED_WARNING_S", 0.1)
    scripts = ["sleep 0.05"] * 8
    scripts[3] = "block"
    outcome, sink = await run(
        world, tmp_path, rows(*scripts), agent_workflow_timeout_s=0.1, grader_timeout_s=0.1
    )
    assert outcome.status == "finished"
    assert len(sink.records) == 8
    blamed = [record for record in sink.records if record.status == "failed"]
    assert [(r.row_index, r.error_type) for r in blamed] == [(3, "timeout")]
    assert "asyncio.to_thread" in blamed[0].error_message
    assert sink.said("event loop is blocked")


async def test_a_process_that_lives_and_refuses_connections_is_replaced_and_the_row_is_named(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr("osmosis.evaluation.rollout_host.PROBE_AFTER_S", 0.1)
    monkeypatch.setattr("osmosis.evaluation.rollout_host.REFUSED_LIMIT_S", 0.2)
    scripts = ["sleep 0.05"] * 8
    scripts[3] = "hide"
    outcome, sink = await run(world, tmp_path, rows(*scripts), selected_rows=8)
    assert outcome.status == "finished"
    assert len(sink.records) == 8
    blamed = [record for record in sink.records if record.status == "failed"]
    assert [(r.row_index, r.error_type) for r in blamed] == [(3, "rollout_crashed")]
    assert "refused connections each time this sample ran alone" in blamed[0].error_message
    assert sink.said("refuses connections")


@pytest.mark.parametrize("batch_size", [1, 3])
async def test_a_crash_of_the_last_rows_does_not_end_the_run_too_early(world, tmp_path, batch_size):
    outcome, sink = await run(world, tmp_path, rows("reward 1", "crash"), batch_size=batch_size)
    assert outcome.status == "finished"
    assert len(sink.records) == 2


async def test_several_poison_rows_among_many_are_named_and_cost_their_neighbours_nothing(
    world, tmp_path
):
    world.max_concurrent = None
    scripts = ["call good sleep 0.02"] * 64
    poison = {3, 4, 17, 40, 63}
    for index in poison:
        scripts[index] = "call good crash"
    outcome, sink = await run(world, tmp_path, rows(*scripts), batch_size=16, selected_rows=64)
    assert outcome.status == "finished"
    assert len(sink.records) == 64
    failed = {record.row_index for record in sink.records if record.status == "failed"}
    assert failed == poison
    for record in sink.records:
        if record.row_index in poison:
            assert (record.error_type, record.tries) == ("rollout_crashed", 2)
            continue
        assert (record.status, record.tries) == ("success", 1)
        assert record.cost_usd == pytest.approx(0.01), "its own try, and no other"
        assert (record.interrupted_cost_usd or 0.0) <= 0.01 * record.interruptions + 1e-9
    interrupted = [record for record in sink.records if record.interrupted_cost_usd]
    assert interrupted, "what was spent in vain is told"
    assert len(world.lives) <= 1 + len(poison) * 8


async def test_an_interrupted_neighbour_gets_its_whole_budget_again(world, tmp_path):
    scripts = ["sleep 0.6", "sleep 0.3 crash"]
    _, sink = await run(
        world,
        tmp_path,
        rows(*scripts),
        batch_size=2,
        selected_rows=2,
        agent_workflow_timeout_s=-1,
        grader_timeout_s=-1,
        advanced=AdvancedSection(teardown_grace_s=1),
    )
    assert sink.by_row()[0].status == "success", (
        "0.3 s of a limit of 1 s were lost with the process"
    )
