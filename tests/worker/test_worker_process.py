"""The worker as a process of its own: killed, told to end, and started wrongly."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.evaluation.engine_fakes import until
from tests.worker.runner_api import TOKEN, FakePlatform

FAKE_WORKER = str(Path(__file__).with_name("fake_worker.py"))


@pytest.fixture
def start(tmp_path):
    """Start worker processes; none outlives the test."""
    started = []

    async def begin(platform, **env):
        environment = {
            **os.environ,
            "OSMOSIS_WORKER_URL": platform.url,
            "OSMOSIS_WORKER_DIR": str(tmp_path / "worker"),
            **env,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            FAKE_WORKER,
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=tmp_path,
        )
        process.stdin.write(TOKEN.encode() + b"\n")
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.returncode is None:
            process.kill()


async def test_kill_9_of_the_worker_ends_its_shards_and_the_next_worker_goes_on(start, tmp_path):
    async with FakePlatform(lease_s=2.0) as platform:
        run = platform.submit(*["sleep 0.05"] * 80)
        worker = await start(platform)
        await until(lambda: len(run.records) > 10, limit_s=20)
        below = psutil.Process(worker.pid).children(recursive=True)
        assert below
        worker.kill()
        await worker.wait()
        await until(lambda: not any(alive(process) for process in below))
        worker = await start(platform)
        await until(lambda: run.ended, limit_s=40)
        worker.send_signal(signal.SIGTERM)
        assert await worker.wait() == 0
    assert run.status == "finished"
    assert sorted(run.records) == [(row, 0) for row in range(80)]
    assert run.claims == 2
    assert list((tmp_path / "worker" / "work").iterdir()) == []


async def test_the_token_is_in_no_argument_and_no_environment(start):
    async with FakePlatform() as platform:
        run = platform.submit("sleep 60")
        worker = await start(platform)
        await until(lambda: "running" in run.stages, limit_s=20)
        parent = psutil.Process(worker.pid)
        for process in filter(alive, [parent, *parent.children(recursive=True)]):
            seen: list[str] = []
            with suppress(psutil.NoSuchProcess):  # it may end while it is looked at
                seen += [*process.cmdline(), *process.environ().values()]
            for secret in (TOKEN, run.lease_token, "s3cret-value"):
                assert not any(secret in text for text in seen)


async def test_a_worker_without_an_address_says_what_to_set(start):
    class Nowhere:
        url = ""

    worker = await start(Nowhere)
    _, stderr = await worker.communicate()
    assert worker.returncode == 2
    assert b"OSMOSIS_WORKER_URL" in stderr


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
