from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest

from osmosis.platform.settings import Settings
from osmosis.platform.worker_process import WorkerProcess
from osmosis.processes import process_start_time

SOURCE = """
import json, os, pathlib, sys, time
pathlib.Path(os.environ["SEEN"]).write_text(json.dumps({"pid": os.getpid(), **os.environ}))
print("x" * 200_000, flush=True)
time.sleep(60)
"""


def seen(path: Path) -> dict[str, str]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


async def next_worker(path: Path, *, other_than: int = 0) -> int:
    deadline = time.monotonic() + 10
    while seen(path).get("pid", 0) in (0, other_than):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    return int(seen(path)["pid"])


async def test_a_worker_is_started_again_when_it_dies_and_ends_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fake_worker.py").write_text(SOURCE)
    file = tmp_path / "seen.json"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SEEN", str(file))
    monkeypatch.setenv("OSMOSIS_MASTER_KEY", "canary")
    settings = Settings(data_dir=tmp_path / "data")
    settings.create_directories()
    worker = WorkerProcess(settings, "http://127.0.0.1:1", module="fake_worker")
    worker.start()
    first = await next_worker(file)
    environment = seen(file)
    assert environment["OSMOSIS_WORKER_URL"] == "http://127.0.0.1:1"
    assert environment["OSMOSIS_WORKER_TOKEN_FILE"] == str(settings.worker_token_file)
    assert "canary" not in str(environment)
    assert len(list(settings.processes_dir.iterdir())) == 1

    os.kill(first, signal.SIGKILL)
    second = await next_worker(file, other_than=first)
    await worker.stop(1.0)
    assert process_start_time(second) is None
    assert list(settings.processes_dir.iterdir()) == []
