"""The worker against a platform in memory: what must hold whatever dies."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from datetime import datetime

import psutil
import pytest

from tests.evaluation.engine_fakes import until
from tests.worker.conftest import shards
from tests.worker.runner_api import FakePlatform


async def ended(run, limit_s: float = 30.0):
    await until(lambda: run.ended, limit_s=limit_s)


def busy_shards(worker):
    pids = {shard.pid for shard in worker._shards._busy}
    return [process for process in shards() if process.pid in pids]


def gone(process: psutil.Process) -> bool:
    try:
        return process.status() == "zombie"
    except psutil.NoSuchProcess:
        return True


def assert_complete(run, count):
    assert run.status == "finished", run.finish
    assert sorted(run.records) == [
        (row, index) for row in range(count) for index in range(run.spec.n)
    ]


async def test_a_run_is_executed_stage_by_stage_and_tells_the_time_of_the_platform(start_worker):
    async with FakePlatform() as platform:
        platform.clock_ahead_s = 3600.0
        soonest = time.time() + 3600
        run = platform.submit(*["reward 1", "artifact", "noreward"] * 10, n=2)
        async with start_worker(platform):
            await ended(run)
        assert_complete(run, 30)
        assert run.finish["effective"]["in_flight"] == 4
        assert "running" in run.stages
        assert run.artifacts == {"note.txt": b"kept [REDACTED]"}
        assert {entry["level"] for entry in run.logs} == {"warning"}
        assert all(record.trajectory for record in run.records.values())
        assert run.claims == 1, "an hour between the clocks costs no lease"
        latest = time.time() + 3600
        for record in run.records.values():
            assert soonest <= record.started_at <= record.finished_at <= latest
            assert record.duration_ms == pytest.approx(
                (record.finished_at - record.started_at) * 1000, abs=0.01
            )
        for entry in run.logs:
            told = datetime.fromisoformat(entry["timestamp"]).timestamp()
            assert soonest - 0.001 <= told <= latest


async def test_two_runs_at_once_do_not_wait_for_each_other(start_worker):
    async with FakePlatform() as platform:
        slow = platform.submit("sleep 60")
        quick = platform.submit("reward 1")
        async with start_worker(platform):
            await ended(quick)
            assert not slow.ended
        assert slow.claims == 1


@pytest.mark.parametrize("seed", [1, 2])
async def test_kill_9_of_the_shard_at_seeded_moments_loses_and_doubles_nothing(
    start_worker, seed, tmp_path
):
    rng = random.Random(seed)
    async with FakePlatform() as platform:
        run = platform.submit(*["sleep 0.03"] * 120)
        async with start_worker(platform) as worker:
            for moment in range(3):
                target = 1 + moment * 30 + rng.randrange(25)
                await until(lambda n=target: len(run.records) >= n and busy_shards(worker))
                for process in busy_shards(worker):
                    process.send_signal(signal.SIGKILL)
            await ended(run)
            # Each try made one model call; those whose record is not here were lost.
            lost = len(list(tmp_path.glob("trials-*/*"))) - 120
            await until(lambda: sum(run.lost_calls.values()) >= lost)
            ledgers = tmp_path / "worker" / "ledgers"
            await until(lambda: not list(ledgers.iterdir()))
        assert_complete(run, 120)
        assert run.claims == 1, "the worker goes on by itself, within its lease"
        assert run.duplicates == 0
        assert len(run.lost_calls) <= 3, "one report for each shard that was killed"


async def test_a_shard_that_always_dies_ends_the_run_with_the_reason(start_worker, monkeypatch):
    monkeypatch.setattr("osmosis.worker.slice_keeper.MAX_RESTARTS", 1)
    monkeypatch.setattr("osmosis.worker.slice_keeper.RESTART_DELAY_S", 0.0)
    async with FakePlatform() as platform:
        run = platform.submit("sleep 60")
        async with start_worker(platform) as worker:
            for _ in range(2):
                await until(lambda: len(busy_shards(worker)) == 1)
                for process in busy_shards(worker):
                    process.send_signal(signal.SIGKILL)
                    await until(lambda p=process: gone(p))
            await ended(run)
        assert run.finish["error"]["kind"] == "worker_lost"
        assert "SIGKILL" in run.finish["error"]["message"]


async def test_a_lost_lease_drops_the_run_at_once(start_worker):
    async with FakePlatform() as platform:
        run = platform.submit("sleep 60")
        async with start_worker(platform) as worker:
            await until(lambda: "running" in run.stages)
            [process] = busy_shards(worker)
            run.lease_token = "somebody else's"
            run.lease_until += 1000
            await until(lambda: not worker._keepers, limit_s=4)
            assert not process.is_running() or process.status() == "zombie"
        assert run.finish is None


async def test_a_platform_that_stays_away_past_the_lease_gets_its_run_back(start_worker):
    async with FakePlatform(lease_s=1.0) as platform:
        run = platform.submit(*["sleep 0.05"] * 60)
        async with start_worker(platform) as worker:
            await until(lambda: len(run.records) > 10)
            platform.away = True
            await until(lambda: not worker._keepers, limit_s=8)
            platform.away = False
            await ended(run)
        assert_complete(run, 60)
        assert run.claims in (2, 3), "a claim may have been waiting when the platform went away"


async def test_a_short_absence_of_the_platform_is_waited_out(start_worker):
    async with FakePlatform(lease_s=20) as platform:
        run = platform.submit(*["sleep 0.02"] * 100)
        async with start_worker(platform):
            await until(lambda: len(run.records) > 10)
            platform.away = True
            await asyncio.sleep(1)
            platform.away = False
            await ended(run)
        assert_complete(run, 100)
        assert run.claims == 1


async def test_a_batch_whose_acknowledgement_is_lost_is_counted_once(start_worker):
    async with FakePlatform() as platform:
        platform.lose_acks = 3
        run = platform.submit(*["reward 1"] * 50)
        async with start_worker(platform):
            await ended(run)
        assert_complete(run, 50)
        assert run.duplicates > 0


async def test_records_that_are_too_large_are_kept_without_their_bulk(start_worker):
    async with FakePlatform() as platform:
        platform.refuse_bulk = True
        run = platform.submit("reward 1", "reward 0")
        async with start_worker(platform):
            await ended(run)
        assert_complete(run, 2)
        assert any("trajectory and output are left out" in entry["message"] for entry in run.logs)


async def test_unacknowledged_records_are_bounded_and_hold_admission_back(start_worker, tmp_path):
    async with FakePlatform(lease_s=30) as platform:
        platform.hold_records = asyncio.Event()
        run = platform.submit(*["reward 1"] * 600, batch_size=64)
        async with start_worker(platform):
            await until(lambda: platform.held > 0, limit_s=20)
            beats = len(run.heartbeats)
            await until(
                lambda: run.heartbeats[beats + 1 :] and run.heartbeats[-1]["in_flight"] == 0,
                limit_s=20,
            )
            assert run.records == {}
            platform.hold_records.set()
            await ended(run)
        assert_complete(run, 600)
        assert max(platform.batches) <= 64


@pytest.mark.parametrize("scripts", [["sleep 60"] * 8, ["reward 1"] * 3 + ["sleep 60"] * 8])
async def test_a_stop_is_idle_within_seconds_and_keeps_what_is_graded(start_worker, scripts):
    async with FakePlatform() as platform:
        run = platform.submit(*scripts)
        async with start_worker(platform) as worker:
            await until(
                lambda: "running" in run.stages and len(run.records) == scripts.count("reward 1")
            )
            run.stop_requested = True
            await ended(run, limit_s=6)
            await until(lambda: not worker._keepers, limit_s=4)
        assert (run.status, run.finish["stop_reason"]) == ("stopped", "user")
        assert len(run.records) == scripts.count("reward 1")


async def test_a_stop_before_the_code_is_there_is_obeyed(start_worker):
    async with FakePlatform() as platform:
        run = platform.submit("sleep 60")
        run.stop_requested = True
        async with start_worker(platform):
            await ended(run, limit_s=8)
        assert run.status == "stopped"


async def test_a_frozen_shard_is_killed_when_it_does_not_stop(start_worker, monkeypatch):
    monkeypatch.setattr("osmosis.worker.run_keeper.STOP_LIMIT_S", 1.0)
    async with FakePlatform() as platform:
        run = platform.submit("sleep 60")
        async with start_worker(platform) as worker:
            await until(lambda: "running" in run.stages)
            [process] = busy_shards(worker)
            process.suspend()
            run.stop_requested = True
            await ended(run, limit_s=8)
        assert run.status == "stopped"


async def test_an_ending_worker_sends_what_is_graded_and_leaves_the_run_open(start_worker):
    async with FakePlatform(lease_s=1.0) as platform:
        run = platform.submit(*["reward 1"] * 5, *["sleep 0.3"] * 20)
        async with start_worker(platform):
            await until(lambda: len(run.records) >= 6)
        assert run.finish is None and not run.ended
        async with start_worker(platform):
            await ended(run)
        assert_complete(run, 25)
        assert run.duplicates == 0


async def test_a_run_that_fails_is_reported_with_kind_and_remedy(start_worker):
    async with FakePlatform() as platform:
        run = platform.submit("reward 1")
        run.code = b"this is no tar"
        async with start_worker(platform):
            await ended(run)
        assert run.status == "failed"
        assert run.finish["error"]["kind"] == "code_unavailable"
