"""One run in several shards: real shard processes, each with its slice, against a platform."""

from __future__ import annotations

import random
import signal

import pytest

from tests.evaluation.engine_fakes import until
from tests.worker.runner_api import FakePlatform
from tests.worker.test_loop import assert_complete, busy_shards, ended

SHARDS = 2


@pytest.fixture(autouse=True)
def few_samples_deserve_a_shard(monkeypatch):
    monkeypatch.setattr("osmosis.worker.shard_count.SAMPLES_A_SHARD", 2)
    monkeypatch.setattr("osmosis.worker.run_keeper.usable_cores", lambda: SHARDS)


def slices_asked(platform):
    return {(first % step, step) for first, step in platform.rows_asked}


async def test_a_killed_shard_costs_the_other_slices_nothing(start_worker, tmp_path):
    rng = random.Random(4)
    async with FakePlatform() as platform:
        run = platform.submit(*["sleep 0.2"] * 30, n=2, batch_size=7)
        async with start_worker(platform) as worker:
            await until(lambda: {row % SHARDS for row, _ in run.records} == set(range(SHARDS)))
            rng.choice(busy_shards(worker)).send_signal(signal.SIGKILL)
            await ended(run)
            lost = len(list(tmp_path.glob("trials-*/*"))) - 60
            await until(lambda: sum(run.lost_calls.values()) >= lost)
        assert_complete(run, 30)
        assert slices_asked(platform) == {(index, SHARDS) for index in range(SHARDS)}
        assert len(list(tmp_path.glob("trials-*"))) == SHARDS + 1, (
            "one process took the place of the victim, no more"
        )
        assert len(run.lost_calls) == 1
        assert (run.claims, run.duplicates) == (1, 0)
        assert run.finish["effective"]["shards"] == SHARDS
        assert run.finish["effective"]["in_flight"] == 7
        assert max(beat["in_flight"] or 0 for beat in run.heartbeats) <= 7
        assert run.stages.count("running") == 1


async def test_a_fault_of_all_halts_every_shard_and_leaves_the_rest_pending(
    start_worker, monkeypatch
):
    monkeypatch.setenv("FAKE_FAULT", "model_key_rejected")
    async with FakePlatform() as platform:
        # The rows of the second slice are refused; those of the first are fine, and slow.
        scripts = ["sleep 0.4", "call rejected fail agent_error"] * 120
        run = platform.submit(*scripts, batch_size=9)
        async with start_worker(platform):
            await ended(run)
        assert (run.status, run.finish["error"]["kind"]) == ("failed", "model_key_rejected")
        assert {record.status for record in run.records.values()} <= {"success"}
        assert 0 < len(run.records) < 120, "what was in flight is kept, and no more was started"
        assert not any(row % SHARDS for row, _ in run.records)


async def test_a_stop_reaches_every_shard(start_worker):
    async with FakePlatform() as platform:
        run = platform.submit(*["reward 1"] * 3, *["sleep 60"] * 9, batch_size=6)
        async with start_worker(platform) as worker:
            await until(lambda: len(busy_shards(worker)) == SHARDS and len(run.records) == 3)
            run.stop_requested = True
            await ended(run, limit_s=6)
        assert (run.status, run.finish["stop_reason"]) == ("stopped", "user")
        assert len(run.records) == 3


async def test_slices_take_turns_where_the_rollout_takes_one_sample_and_the_end_outlives_its_worker(
    start_worker, monkeypatch, tmp_path
):
    monkeypatch.setenv("FAKE_MAX_CONCURRENT", "1")
    monkeypatch.setattr("osmosis.worker.run_keeper.ABANDON_LIMIT_S", 0.1)
    async with FakePlatform(lease_s=1.0) as platform:
        platform.refuse_finish = True
        run = platform.submit(*["reward 1"] * 8, batch_size=9)
        async with start_worker(platform):
            await until(lambda: platform.finish_asked > 0, limit_s=30)
            assert len(run.records) == 8, "everything is recorded before the end is told"
            order = [row % SHARDS for row, _ in run.records]
            assert order == sorted(order), "one slice after the other"
            assert run.heartbeats[-1]["effective"]["in_flight"] == 1
        platform.refuse_finish = False
        async with start_worker(platform):
            await ended(run)
        assert_complete(run, 8)
        assert (run.claims, run.duplicates) == (2, 0)
        assert sum(run.lost_calls.values()) == 0, "the second worker has nothing to run"
