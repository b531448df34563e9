from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Job
from osmosis.platform.jobs.process import JobProcessError, run_process
from osmosis.platform.jobs.service import JobKind, Jobs
from osmosis.platform.platform import Platform
from osmosis.platform.settings import Settings
from osmosis.processes import process_start_time

MODULES = {
    "double": "import json,sys; print(json.dumps({'twice': json.load(sys.stdin)['n'] * 2}))",
    "broken": "import sys; print('a reason', file=sys.stderr); sys.exit(3)",
    "endless": "import os,sys,time,pathlib,json\n"
    "pathlib.Path(json.load(sys.stdin)['pid_file']).write_text(str(os.getpid()))\n"
    "time.sleep(60)",
    "flood": "import os\nwhile True: os.write(1, b'x' * 65536)",
    "chatty": "print('[1]')",
    "curious": "import json,os; print(json.dumps(dict(os.environ)))",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    for name, source in MODULES.items():
        (folder / f"job_{name}.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.fixture
def platform_settings(tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path / "data", embedded_worker=False, job_lease_s=1, job_max_tries=2
    )


@dataclass
class Outcomes:
    results: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def result(self, _session: AsyncSession, _job: Job, answer: dict[str, Any]) -> None:
        self.results.append(answer)

    async def failure(self, _session: AsyncSession, _job: Job, reason: str) -> None:
        self.failures.append(reason)


@pytest.fixture
def outcomes(platform: Platform) -> Outcomes:
    seen = Outcomes()
    for name in MODULES:
        platform.jobs.register(
            JobKind(name, f"job_{name}", seen.result, seen.failure, timeout_s=10)
        )
    return seen


async def until(condition: Callable[[], bool | Awaitable[bool]], limit_s: float = 15) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        found = condition()
        if found if isinstance(found, bool) else await found:
            return
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.01)


async def enqueue(platform: Platform, kind: str, **payload: Any) -> str:
    async with platform.db.write() as session:
        return (await platform.jobs.enqueue(session, kind, "subject", payload)).id


async def status_of(platform: Platform, job_id: str) -> str:
    async with platform.db.read() as session:
        return (await session.execute(select(Job.status).where(Job.id == job_id))).scalar_one()


async def test_a_job_runs_in_a_process_and_its_answer_is_applied(
    platform: Platform, outcomes: Outcomes
) -> None:
    jobs = [await enqueue(platform, "double", n=n) for n in range(3)]
    await until(lambda: len(outcomes.results) == 3)
    assert sorted(answer["twice"] for answer in outcomes.results) == [0, 2, 4]
    for job in jobs:
        await until(lambda job=job: _is(platform, job, "done"))


async def test_a_job_of_a_rolled_back_transaction_never_runs(
    platform: Platform, outcomes: Outcomes
) -> None:
    with pytest.raises(RuntimeError):
        async with platform.db.write() as session:
            await platform.jobs.enqueue(session, "double", "subject", {"n": 1})
            raise RuntimeError
    await enqueue(platform, "double", n=5)
    await until(lambda: len(outcomes.results) == 1)
    assert outcomes.results == [{"twice": 10}]


async def test_a_failing_job_is_tried_again_a_bounded_number_of_times(
    platform: Platform, outcomes: Outcomes
) -> None:
    job = await enqueue(platform, "broken")
    await until(lambda: len(outcomes.failures) == 1)
    assert outcomes.failures == ["Its process ended with status 3: a reason"]
    async with platform.db.read() as session:
        assert (await session.get_one(Job, job)).tries == 2


async def test_an_expired_lease_is_run_again_and_a_hopeless_one_given_up(
    platform: Platform, outcomes: Outcomes
) -> None:
    past = utc_now() - timedelta(seconds=1)
    lost = {"status": "running", "lease_token": "gone", "lease_expires_at": past}
    async with platform.db.write() as session:
        session.add(Job(kind="double", subject_id="s", payload={"n": 4}, tries=1, **lost))
        session.add(Job(kind="double", subject_id="s", payload={"n": 5}, tries=2, **lost))
    platform.events.publish("jobs")
    await until(lambda: len(outcomes.results) == len(outcomes.failures) == 1)
    assert outcomes.results == [{"twice": 8}]
    assert "lost again and again" in outcomes.failures[0]


async def test_a_restarted_server_does_not_wait_for_the_leases_of_its_earlier_life(
    platform: Platform, outcomes: Outcomes
) -> None:
    far = utc_now() + timedelta(hours=1)
    held = {"status": "running", "lease_token": "t", "lease_owner": "dead", "tries": 1}
    async with platform.db.write() as session:
        session.add(
            Job(kind="next-life", subject_id="s", payload={"n": 4}, lease_expires_at=far, **held)
        )
    restarted = Jobs(platform.settings, platform.db, platform.events)
    restarted.register(JobKind("next-life", "job_double", outcomes.result, outcomes.failure))
    running = asyncio.create_task(restarted.run())
    await until(lambda: len(outcomes.results) == 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_job_whose_lease_was_taken_applies_nothing(
    platform: Platform, outcomes: Outcomes, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    job = await enqueue(platform, "endless", pid_file=str(pid_file))
    await until(lambda: pid_file.exists() and bool(pid_file.read_text()))
    async with platform.db.write() as session:
        far = utc_now() + timedelta(hours=1)
        await session.execute(
            update(Job).where(Job.id == job).values(lease_token="other", lease_expires_at=far)
        )
    await until(lambda: process_start_time(int(pid_file.read_text())) is None)
    assert (outcomes.results, outcomes.failures) == ([], [])
    assert await status_of(platform, job) == "running"


async def test_closing_the_platform_ends_the_processes_of_its_jobs(
    platform: Platform, outcomes: Outcomes, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    await enqueue(platform, "endless", pid_file=str(pid_file))
    await until(lambda: pid_file.exists() and bool(pid_file.read_text()))
    await platform.close()
    assert process_start_time(int(pid_file.read_text())) is None


async def test_an_answer_that_cannot_be_applied_is_tried_again(platform: Platform) -> None:
    calls: list[int] = []

    async def result(_session: AsyncSession, _job: Job, answer: dict[str, Any]) -> None:
        calls.append(answer["twice"])
        if len(calls) == 1:
            raise RuntimeError("not now")

    async def failure(_session: AsyncSession, _job: Job, _reason: str) -> None:
        raise AssertionError

    platform.jobs.register(JobKind("again", "job_double", result, failure))
    job = await enqueue(platform, "again", n=1)
    await until(lambda: len(calls) == 2)
    await until(lambda: _is(platform, job, "done"))


async def _is(platform: Platform, job: str, status: str) -> bool:
    return await status_of(platform, job) == status


async def test_a_process_is_bounded_in_time_and_output(tmp_path: Path) -> None:
    with pytest.raises(JobProcessError, match=r"longer than 0\.3 seconds"):
        await run_process(
            "job_endless", {"pid_file": str(tmp_path / "p")}, timeout_s=0.3, output_bytes=100
        )
    with pytest.raises(JobProcessError, match="more than 100000 bytes"):
        await run_process("job_flood", {}, timeout_s=10, output_bytes=100_000)
    with pytest.raises(JobProcessError, match="not a JSON object"):
        await run_process("job_chatty", {}, timeout_s=10, output_bytes=100)


async def test_a_process_that_writes_without_end_is_ended_each_time() -> None:
    """Unread output in a full pipe must not keep its end from being noticed."""
    for _ in range(5):
        with pytest.raises(JobProcessError, match="more than 100000 bytes"):
            await run_process("job_flood", {}, timeout_s=20, output_bytes=100_000)


async def test_a_process_sees_no_secret_of_the_servers_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    monkeypatch.setenv("OSMOSIS_MASTER_KEY", "canary")
    seen = await run_process("job_curious", {}, timeout_s=10, output_bytes=100_000)
    assert "canary" not in str(seen)
