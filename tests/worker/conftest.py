"""A worker in this process, with real shard processes that execute fake rollouts."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from osmosis.worker import nursery_process, shard_process
from osmosis.worker.loop import Worker
from osmosis.worker.own_dir import own_dir
from osmosis.worker.settings import WorkerSettings
from tests.worker.runner_api import TOKEN

FAKE_SHARD = Path(__file__).with_name("fake_shard.py")


@pytest.fixture
def fake_shards(monkeypatch, tmp_path):
    """Shard processes run ``fake_shard.py``; their working directory is the test's."""
    for module, name in ((shard_process, "shard_argv"), (nursery_process, "nursery_argv")):
        kind = name.removesuffix("_argv")
        argv = [sys.executable, str(FAKE_SHARD), str(psutil.Process().pid), kind]
        monkeypatch.setattr(module, name, lambda argv=argv: argv)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def start_worker(fake_shards, tmp_path):
    """``async with start_worker(platform) as worker``."""

    @asynccontextmanager
    async def start(platform, *, slots=4):
        token_file = tmp_path / "token"
        token_file.write_text(TOKEN)
        settings = WorkerSettings(
            url=platform.url, token_file=token_file, slots=slots, directory=tmp_path / "worker"
        )
        with own_dir(settings.work_dir) as directory:
            worker = Worker(settings, directory)
            task = asyncio.create_task(worker.run())
            try:
                yield worker
            finally:
                worker.stop()
                async with asyncio.timeout(15):
                    await task
        assert shards() == []
        assert list(settings.work_dir.iterdir()) == []

    return start


def shards() -> list[psutil.Process]:
    """The living processes of a worker below this one: its shards and their nurseries."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if "fake_shard.py" in " ".join(child.cmdline()) and child.status() != "zombie":
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found
