"""The runner API: claims, leases, records counted once, the end of a run."""

from __future__ import annotations

import asyncio
import io
import json
import os
import platform as machine
import tarfile
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, func, select, update
from sqlalchemy.exc import OperationalError

from osmosis.platform.db.base import steady_now, utc_now
from osmosis.platform.db.models import Run, RunLog, Sample
from osmosis.platform.evals.places import run_dir, segments_dir
from osmosis.platform.platform import Platform
from osmosis.platform.runners import reaper
from osmosis.platform.runners.leases import (
    MAX_CLAIMS_WITHOUT_PROGRESS,
    claim_next,
    clip_leases,
)
from osmosis.platform.runners.worker_id import is_dead
from osmosis.platform.segments import SegmentWriter
from tests.platform.conftest import Account
from tests.platform.runs import Worker, add_dataset, claimed, push_workspace, record, submission

Submit = Callable[..., Awaitable[str]]


@pytest.fixture
async def submit(
    platform: Platform, account: Account, client: httpx.AsyncClient, tmp_path: Path
) -> Submit:
    """Submits a run and returns its name."""
    await push_workspace(platform, account, tmp_path)
    await add_dataset(platform, account)

    async def post(**changes: Any) -> str:
        answer = await client.post("/api/cli/eval-runs", json=submission(**{"limit": 4, **changes}))
        assert answer.status_code == 201, answer.text
        return answer.json()["name"]

    return post


async def run_of(platform: Platform, name: str) -> Run:
    async with platform.db.read() as session:
        return (await session.execute(select(Run).where(Run.name == name))).scalar_one()


def segment_bytes(platform: Platform, worker: Worker) -> int:
    folder = segments_dir(platform.settings, worker.spec["run_id"])
    return sum(path.stat().st_size for path in folder.glob("*.seg"))


async def expire_lease(platform: Platform, name: str) -> None:
    await expire_lease_by(platform, name, utc_now() - timedelta(seconds=1))


async def expire_lease_by(platform: Platform, name: str, past: datetime) -> None:
    async with platform.db.write() as session:
        await session.execute(update(Run).where(Run.name == name).values(lease_expires_at=past))


async def test_a_run_goes_from_claim_to_finished(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit(n=2, batch_size=8)
    worker = await claimed(worker_client)
    assert worker.spec["name"] == name
    assert worker.spec["selected_rows"] == 4 and worker.spec["total_rows"] == 40
    assert worker.spec["batch_size"] == 8 and worker.spec["resume"] is False

    rows = [json.loads(line) for line in (await worker.get("rows")).text.splitlines()]
    assert [row["row_index"] for row in rows] == [0, 1, 2, 3]
    assert rows[2] == {
        "row_index": 2,
        "source_row": 2,
        "initial_messages": [{"role": "user", "content": "row-2."}],
        "label": "2",
    }
    with tarfile.open(fileobj=io.BytesIO((await worker.get("code")).content)) as tar:
        assert "rollouts/multiply/main.py" in tar.getnames()

    beat = await worker.post("heartbeat", stage="running", in_flight=3, waiting_for="row 1")
    assert beat.json() == {"stop": False, "lease_s": 15.0}
    everything = [record(row, index) for row in range(4) for index in range(2)]
    answer = await worker.send(*everything)
    assert answer.json().items() >= {"accepted": 8, "duplicates": 0, "stop": False}.items()
    done = [json.loads(line) for line in (await worker.get("done")).text.splitlines()]
    assert done == [[row, index] for row in range(4) for index in range(2)]
    assert (await worker.finish()).status_code == 200

    run = await run_of(platform, name)
    assert run.status == "finished" and run.completed_at is not None
    assert (run.sample_count, run.graded_count, run.passed_count) == (8, 8, 8)
    assert run.tokens_sum == 800 and run.cost_sum == pytest.approx(0.008)
    assert run.summary is not None and run.summary["pass_at_k"] == [[1, 1.0], [2, 1.0]]


async def test_replayed_records_change_nothing(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    first = record(0)
    await worker.send(first)
    again = await worker.send(first, record(0, reward=0.0), record(1))
    assert again.json().items() >= {"accepted": 1, "duplicates": 2, "stop": False}.items()
    run = await run_of(platform, name)
    assert (run.sample_count, run.passed_count, run.reward_sum) == (2, 2, 2.0)


async def test_the_same_sample_twice_in_one_batch_counts_once(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    answer = await worker.send(record(0), record(0))
    assert answer.json()["accepted"] == 1
    assert (await run_of(platform, name)).sample_count == 1


async def test_batches_at_the_same_moment_count_every_sample_once(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit(limit=40)
    worker = await claimed(worker_client)
    batches = [[record(row) for row in range(start, start + 20)] for start in (0, 10, 20, 5)]
    answers = await asyncio.gather(*(worker.send(*batch) for batch in batches))
    assert sum(answer.json()["accepted"] for answer in answers) == 40
    run = await run_of(platform, name)
    assert run.sample_count == run.graded_count == 40
    async with platform.db.read() as session:
        assert (await session.execute(select(func.count()).select_from(Sample))).scalar_one() == 40


async def test_counters_keep_each_status_apart(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    await worker.send(
        record(0, reward=0.25),
        record(1, status="failed", reward=None, error_type="timeout", error_message="too slow"),
        record(2, status="skipped", reward=None),
        record(3, status="success", reward=1.0, cost_usd=None),
    )
    run = await run_of(platform, name)
    assert (run.success_count, run.failed_count, run.skipped_count) == (2, 1, 1)
    assert (run.graded_count, run.passed_count) == (2, 1)
    assert run.cost_unknown_count == 1


async def test_a_record_outside_the_run_is_refused(
    submit: Submit, worker_client: httpx.AsyncClient
) -> None:
    await submit()
    worker = await claimed(worker_client)
    answer = await worker.send(record(4))
    assert answer.status_code == 400
    assert "4 rows" in answer.json()["error"]
    answer = await worker.send({**record(0), "reward": "much"})
    assert answer.status_code == 400 and "Line 1" in answer.json()["error"]


async def test_a_claim_waits_for_a_run_and_takes_it_at_once(
    submit: Submit, worker_client: httpx.AsyncClient
) -> None:
    waiting = asyncio.create_task(Worker.claims(worker_client, wait_s=20))
    await asyncio.sleep(0)
    name = await submit()
    async with asyncio.timeout(5):
        worker = await waiting
    assert worker is not None and worker.spec["name"] == name


async def test_no_run_is_claimed_twice(submit: Submit, worker_client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await submit()
    claims = await asyncio.gather(*(Worker.claims(worker_client, f"w{i}") for i in range(6)))
    names = [worker.spec["name"] for worker in claims if worker]
    assert len(names) == len(set(names)) == 3


async def test_a_lost_lease_is_taken_over_and_the_old_holder_can_do_nothing(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    first = await claimed(worker_client, "first")
    await first.send(record(0))
    assert await Worker.claims(worker_client, "second") is None
    await expire_lease(platform, name)
    second = await claimed(worker_client, "second")
    assert second.spec["resume"] is True
    assert (await second.get("done")).text == "[0,0]\n"

    for answer in (
        await first.send(record(1)),
        await first.post("heartbeat"),
        await first.post("logs", entries=[]),
        await first.get("rows"),
        await first.put("artifacts/" + "a" * 32 + "/x.txt", b"x"),
        await first.finish(),
    ):
        assert answer.status_code == 409
        assert answer.json()["code"] == "LEASE_LOST"
    assert (await run_of(platform, name)).sample_count == 1
    await second.send(record(1), record(2), record(3))
    await second.finish()
    run = await run_of(platform, name)
    assert (run.status, run.sample_count) == ("finished", 4)


async def test_a_silent_worker_keeps_its_run_as_long_as_nobody_else_took_it(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    await expire_lease(platform, name)
    assert (await worker.post("heartbeat")).status_code == 200
    assert await Worker.claims(worker_client, "other") is None


async def test_a_worker_of_this_machine_that_died_is_replaced_without_waiting(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    await submit()
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    host = machine.node()
    dead = f"{host}-{gone.pid}-abc123"
    await claim_next(platform, dead)
    assert len(await reaper.expire_dead_leases(platform)) == 1
    assert await Worker.claims(worker_client, dead) is None, "a claim outlived its worker"
    await claimed(worker_client, f"{host}-{os.getpid()}-abc123")
    assert await reaper.expire_dead_leases(platform) == []
    assert not is_dead(f"elsewhere-{gone.pid}-abc123")
    assert not is_dead("w1")


async def test_a_run_that_loses_every_worker_ends_as_failed(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    for _ in range(MAX_CLAIMS_WITHOUT_PROGRESS):
        await claimed(worker_client)
        await expire_lease(platform, name)
    assert await Worker.claims(worker_client) is None
    run = await run_of(platform, name)
    assert run.status == "failed"
    assert run.error is not None and run.error["kind"] == "worker_lost"


async def test_a_new_sample_clears_the_count_of_vain_claims(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit(limit=10)
    for row in range(MAX_CLAIMS_WITHOUT_PROGRESS + 2):
        worker = await claimed(worker_client)
        await worker.send(record(row))
        await expire_lease(platform, name)
    assert (await run_of(platform, name)).status == "running"


async def test_a_run_finishes_only_with_every_sample(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    await worker.send(record(0))
    await worker.finish("finished")
    run = await run_of(platform, name)
    assert run.status == "failed"
    assert run.error is not None and "1 of 4" in run.error["message"]


async def test_the_end_may_be_reported_twice_but_nothing_comes_after_it(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    error = {"kind": "model_key_missing", "message": "No key.", "hint": "Set one."}
    assert (await worker.finish("failed", error=error)).status_code == 200
    assert (await worker.finish("stopped")).status_code == 200
    assert (await worker.send(record(0))).status_code == 409
    run = await run_of(platform, name)
    assert (run.status, run.error, run.sample_count) == ("failed", error, 0)


async def test_provided_secrets_reach_the_worker_and_are_erased_at_the_end(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform, tmp_path: Path
) -> None:
    canary = "canary-7f3a91"
    name = await submit(secrets={"required": ["API_KEY"], "provided": {"API_KEY": canary}})
    run = await run_of(platform, name)
    assert run.provided_cipher is not None and canary.encode() not in run.provided_cipher
    worker = await claimed(worker_client)
    assert worker.spec["secrets"] == {"API_KEY": canary}
    await worker.finish("stopped")
    assert (await run_of(platform, name)).provided_cipher is None
    for path in (tmp_path / "data").rglob("*"):
        assert not path.is_file() or canary.encode() not in path.read_bytes(), path


async def test_a_secret_deleted_since_submit_fails_the_run_with_its_name(
    submit: Submit, client: httpx.AsyncClient, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    stored = {"name": "API_KEY", "value": "v", "scope": "user"}
    await client.post("/api/cli/environment-secrets", json=stored)
    name = await submit(secrets={"required": ["API_KEY"]})
    gone = {"name": "API_KEY", "scope": "user"}
    await client.request("DELETE", "/api/cli/environment-secrets", json=gone)
    assert await Worker.claims(worker_client) is None
    run = await run_of(platform, name)
    assert run.status == "failed"
    assert run.error is not None and run.error["kind"] == "secret_missing"
    assert "API_KEY" in run.error["message"]


async def test_endpoints_come_with_their_keys(
    submit: Submit, client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    secret = {"name": "LOCAL_KEY", "value": "sesame", "scope": "workspace"}
    await client.post("/api/cli/environment-secrets", json=secret)
    endpoint = {
        "name": "local",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key_secret": "LOCAL_KEY",
    }
    answer = await client.post("/api/cli/model-endpoints", json=endpoint)
    assert answer.status_code < 300, answer.text
    await submit(experiment={"model_path": "local"})
    [given] = (await claimed(worker_client)).spec["endpoints"]
    assert given["name"] == "local" and given["api_key"] == "sesame"


async def test_stopping_a_running_run_is_told_to_its_worker(
    submit: Submit, client: httpx.AsyncClient, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    assert (await client.post(f"/api/cli/eval-runs/{name}/stop", json={})).status_code == 200
    assert (await worker.post("heartbeat")).json()["stop"] is True
    answer = await worker.send(record(0))
    assert answer.json().items() >= {"accepted": 1, "duplicates": 0, "stop": True}.items()
    await worker.finish("stopped")
    run = await run_of(platform, name)
    assert (run.status, run.stop_reason, run.sample_count) == ("stopped", "user", 1)


async def test_a_stop_without_a_living_worker_is_carried_out_by_the_platform(
    submit: Submit, client: httpx.AsyncClient, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    await client.post(f"/api/cli/eval-runs/{name}/stop", json={})
    assert await reaper.end_stopped_runs(platform) == []
    await expire_lease(platform, name)
    await reaper.end_stopped_runs(platform)
    assert (await run_of(platform, name)).status == "stopped"
    assert (await worker.send(record(0))).status_code == 409


async def test_a_worker_that_does_not_obey_a_stop_loses_its_run(
    submit: Submit, client: httpx.AsyncClient, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    await client.post(f"/api/cli/eval-runs/{name}/stop", json={})
    asked = utc_now() - timedelta(seconds=reaper.STOP_DEADLINE_S + 1)
    async with platform.db.write() as session:
        await session.execute(update(Run).where(Run.name == name).values(stop_requested_at=asked))
    await reaper.end_stopped_runs(platform)
    assert (await run_of(platform, name)).status == "stopped"
    assert (await worker.post("heartbeat")).status_code == 409


async def test_logs_are_bounded_and_say_so(
    submit: Submit,
    worker_client: httpx.AsyncClient,
    platform: Platform,
    platform_app: Any,
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    platform_app.state.runs.logs._limit = 10
    entry = {"timestamp": "2026-01-01T00:00:00Z", "step": "install", "message": "x" * 20_000}
    for _ in range(4):
        assert (await worker.post("logs", entries=[entry] * 4)).status_code == 200
    run = await run_of(platform, name)
    async with platform.db.read() as session:
        query = select(RunLog).where(RunLog.run_id == run.id).order_by(RunLog.id)
        lines = (await session.execute(query)).scalars().all()
    assert len(lines) == 11
    assert "Later lines are dropped" in lines[-1].message
    assert len(lines[5].message) < 17_000


@pytest.mark.parametrize(
    "path",
    [
        "../../escape.txt",
        "a/../../b",
        "manifest.json",
        "a//b",
        "a/%2e%2e/%2e%2e/b",
        "%5cx",
        "a%00b",
    ],
)
async def test_artifact_paths_stay_inside(
    submit: Submit, worker_client: httpx.AsyncClient, tmp_path: Path, path: str
) -> None:
    await submit()
    worker = await claimed(worker_client)
    answer = await worker.put(f"artifacts/{'a' * 32}/{path}", b"bad")
    assert answer.status_code in (400, 404), answer.text
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.read_bytes() == b"bad"]


async def test_artifacts_are_stored_whole(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    answer = await worker.put(f"artifacts/{'a' * 32}/sub/plot 1.txt", b"data" * 1000)
    assert answer.json() == {"size": 4000}
    run = await run_of(platform, name)
    root = platform.settings.runs_dir / run.id / "artifacts"
    assert (root / ("a" * 32) / "sub/plot 1.txt").read_bytes() == b"data" * 1000
    clash = await worker.put(f"artifacts/{'a' * 32}/sub", b"x")
    assert clash.status_code == 400


async def test_a_slice_of_the_rows_keeps_their_indices(
    submit: Submit, worker_client: httpx.AsyncClient
) -> None:
    await submit(limit=9)
    worker = await claimed(worker_client)
    for query, expected in (("first=1&step=4", [1, 5]), ("first=8", [8]), ("first=9", [])):
        answer = await worker.get(f"rows?{query}")
        rows = [json.loads(line) for line in answer.text.splitlines()]
        assert [row["row_index"] for row in rows] == expected
        assert [row["source_row"] for row in rows] == expected


async def test_a_dataset_deleted_meanwhile_is_named(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    await submit()
    worker = await claimed(worker_client)
    for path in platform.settings.datasets_dir.iterdir():
        path.unlink()
    answer = await worker.get("rows")
    assert answer.status_code == 404 and "sums" in answer.json()["error"]


async def test_nothing_is_acknowledged_that_is_not_on_disk(
    submit: Submit,
    worker_client: httpx.AsyncClient,
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = await submit()
    worker = await claimed(worker_client)

    def full(*_: Any) -> list[Any]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SegmentWriter, "append", full)
    answer = await worker.send(record(0))
    assert answer.status_code == 507 and "No space" in answer.json()["error"]
    assert (await run_of(platform, name)).sample_count == 0


async def test_a_batch_that_the_disk_took_half_of_leaves_nothing_and_the_next_one_fits(
    submit: Submit,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    await worker.send(record(0))

    def half(self: SegmentWriter, file: int, data: bytes) -> None:
        os.write(file, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(SegmentWriter, "_write", half)
        size = segment_bytes(platform, worker)
        assert (await worker.send(record(1))).status_code == 507
        assert segment_bytes(platform, worker) == size, "a full disk gets its half back"
    assert (await worker.send(record(1), record(2), record(3))).json()["accepted"] == 3
    assert (await worker.finish()).status_code == 200
    for row in range(4):
        sample = await client.get(f"/api/cli/eval-runs/{name}/samples/{row}/0")
        assert sample.json()["steps"][0]["message"] == f"row-{row}."


async def test_a_database_that_cannot_grow_refuses_and_goes_on_when_it_can(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit(limit=40)
    worker = await claimed(worker_client)
    batch = [record(row, error_message="x" * 30_000) for row in range(40)]

    def grow_to(pages: int) -> Callable[[Connection], None]:
        def set_limit(connection: Connection) -> None:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

        return set_limit

    await platform.db.transact(grow_to(1))
    for _ in range(3):
        refused = await worker.send(*batch)
        assert segment_bytes(platform, worker) == 0, "repeats pile nothing up"
    assert refused.status_code >= 500
    assert (await run_of(platform, name)).sample_count == 0
    await platform.db.transact(grow_to(2**30))
    assert (await worker.send(*batch)).json()["accepted"] == 40
    assert (await run_of(platform, name)).sample_count == 40


async def test_what_a_kill_tore_off_a_segment_harms_no_sample(
    submit: Submit,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    platform: Platform,
    platform_app: FastAPI,
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    await worker.send(record(0))
    run = await run_of(platform, name)
    # As after a new start: no writer is open, and the file ends in half an entry.
    platform_app.state.runs.writers.close_all()
    (segment,) = segments_dir(platform.settings, run.id).glob("*.seg")
    with segment.open("ab") as file:
        file.write(b"OSM1\x00\x00")
    await worker.send(record(1))
    for row in range(2):
        sample = await client.get(f"/api/cli/eval-runs/{name}/samples/{row}/0")
        assert sample.json()["steps"][0]["message"] == f"row-{row}."


async def test_records_that_arrive_while_their_run_is_deleted_leave_nothing(
    submit: Submit, client: httpx.AsyncClient, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit(limit=40)
    worker = await claimed(worker_client)
    run = await run_of(platform, name)
    sending = [worker.send(record(row)) for row in range(40)]

    async def delete() -> int:
        await client.post(f"/api/cli/eval-runs/{name}/stop")
        await worker.finish("stopped")
        return (await client.delete(f"/api/cli/eval-runs/{name}")).status_code

    deleted, answers = await asyncio.gather(delete(), asyncio.gather(*sending))
    assert deleted == 200
    assert {answer.status_code for answer in answers} <= {200, 409}
    deadline = time.monotonic() + 10
    while run_dir(platform.settings, run.id).exists():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    assert (await worker.send(record(0))).status_code == 409
    assert not run_dir(platform.settings, run.id).exists()
    async with platform.db.read() as session:
        left = select(func.count()).select_from(Sample).where(Sample.run_id == run.id)
        assert (await session.execute(left)).scalar_one() == 0


async def test_a_person_cannot_act_as_a_worker_nor_a_worker_as_a_person(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    assert (await client.post("/api/runner/claim", json={"worker_id": "x"})).status_code == 401
    assert (await worker_client.get("/api/cli/eval-runs")).status_code == 401


async def test_lost_calls_are_told_once_also_after_the_end_and_without_a_lease(
    submit: Submit,
    worker_client: httpx.AsyncClient,
    client: httpx.AsyncClient,
) -> None:
    name = await submit(limit=1)
    worker = await claimed(worker_client)
    await worker.send(record(0))
    await worker.finish()
    path = f"/api/runner/runs/{worker.spec['run_id']}/lost-calls"
    for shard, calls in (("a" * 16, 3), ("a" * 16, 3), ("b" * 16, 1)):
        answer = await worker_client.post(path, json={"shard_id": shard, "calls": calls})
        assert answer.status_code == 200
    document = (await client.get(f"/api/cli/eval-runs/{name}")).json()
    assert document["eval_run"]["status"] == "finished"
    assert document["results"]["lost_calls"] == 4
    logs = (await client.get(f"/api/cli/eval-runs/{name}/logs")).text
    assert logs.count("may have been charged") == 2
    gone = await worker_client.post(
        "/api/runner/runs/none/lost-calls", json={"shard_id": "a" * 16, "calls": 1}
    )
    assert gone.status_code == 404


async def test_a_run_given_in_an_answer_that_got_lost_is_given_again_at_once(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    lost = await claimed(worker_client, "w1")
    for worker_id, holding in (("w1", [lost.spec["run_id"]]), ("w2", []), ("w1", None)):
        body = {"worker_id": worker_id, "wait_s": 0, "holding": holding}
        assert (await worker_client.post("/api/runner/claim", json=body)).status_code == 204
    body = {"worker_id": "w1", "wait_s": 0, "holding": []}
    again = await worker_client.post("/api/runner/claim", json=body)
    assert again.json()["spec"]["name"] == name
    assert (await lost.send(record(0))).status_code == 409, "the first claim is void"
    assert (await run_of(platform, name)).claims == 2


async def test_a_heartbeat_promises_no_more_than_the_lease_has_left(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    assert (await worker.post("heartbeat", stage="running")).json()["lease_s"] == 15.0
    soon = utc_now() + timedelta(seconds=13)
    async with platform.db.write() as session:
        await session.execute(update(Run).where(Run.name == name).values(lease_expires_at=soon))
    assert (await worker.post("heartbeat", stage="running")).json()["lease_s"] <= 13.0


async def test_while_nothing_can_be_written_the_worker_keeps_its_run_and_people_are_told(
    submit: Submit,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    anonymous: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = await submit()
    worker = await claimed(worker_client)

    async def full(*_: Any) -> float:
        raise OperationalError("UPDATE", {}, Exception("database or disk is full"))

    with monkeypatch.context() as patch:
        patch.setattr("osmosis.platform.runners.leases._extend", full)
        answer = await worker.post("heartbeat", stage="running")
    assert answer.json() == {"stop": False, "lease_s": 15.0}
    document = (await client.get(f"/api/cli/eval-runs/{name}")).json()
    assert "disk" in document["eval_run"]["waiting_for"]
    assert (await anonymous.get("/api/health")).json()["problem"] == "disk full"
    await worker.send(record(0))
    assert "problem" not in (await anonymous.get("/api/health")).json()


async def test_a_lease_of_an_earlier_life_lasts_no_longer_than_one_from_now(
    submit: Submit, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submit()
    await claimed(worker_client)
    async with platform.db.write() as session:
        tomorrow = utc_now() + timedelta(days=1)
        await session.execute(update(Run).where(Run.name == name).values(lease_expires_at=tomorrow))
    await clip_leases(platform)
    left = (await run_of(platform, name)).lease_expires_at
    assert left is not None and left <= utc_now() + timedelta(seconds=16)


@pytest.mark.parametrize("hours", [-3, 3])
async def test_a_step_of_the_machines_clock_neither_ends_a_lease_nor_keeps_it_alive(
    submit: Submit,
    worker_client: httpx.AsyncClient,
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
    hours: int,
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    later = utc_now() + timedelta(hours=hours)
    for module in ("db.base", "evals.service", "evals.lifecycle"):
        monkeypatch.setattr(f"osmosis.platform.{module}.utc_now", lambda: later)
    assert await Worker.claims(worker_client, "w2") is None, "the lease still holds"
    assert (await worker.post("heartbeat", stage="running")).json()["lease_s"] == 15.0
    left = (await run_of(platform, name)).lease_expires_at
    assert left is not None and abs((left - steady_now()).total_seconds()) < 16
    await expire_lease_by(platform, name, steady_now() - timedelta(seconds=1))
    again = await Worker.claims(worker_client, "w2")
    assert again is not None
    await again.finish()
    run = await run_of(platform, name)
    assert run.started_at is not None and run.completed_at is not None
    assert run.created_at <= run.started_at <= run.completed_at


async def test_a_batch_of_log_lines_that_is_sent_again_is_stored_once(
    submit: Submit, worker_client: httpx.AsyncClient, client: httpx.AsyncClient
) -> None:
    name = await submit()
    worker = await claimed(worker_client)
    line = {"timestamp": utc_now().isoformat(), "step": "rollout", "message": "only-once"}
    for batch in ("b1", "b1", "b2"):
        assert (await worker.post("logs", entries=[line], id=batch)).status_code == 200
    text = (await client.get(f"/api/cli/eval-runs/{name}/logs")).text
    assert text.count("only-once") == 2
