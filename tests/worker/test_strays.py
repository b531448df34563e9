from __future__ import annotations

import asyncio
import subprocess
import sys

from osmosis.worker import strays
from tests.evaluation.engine_fakes import until

PARENT_OF_STRAYS = """
import subprocess, sys
for _ in range(int(sys.argv[1])):
    child = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
"""

WORKER = f"""
import os, signal, subprocess, sys, time
from osmosis.evaluation.process_life import adopt_orphans
from osmosis.worker.strays import kill_strays
def strays_of_a_shard(count):
    argv = [sys.executable, "-c", {PARENT_OF_STRAYS!r}, str(count)]
    return map(int, subprocess.run(argv, stdout=-1, text=True).stdout.split())
adopt_orphans()
known = subprocess.Popen(["sleep", "300"])
killed, running = strays_of_a_shard(2)
os.kill(killed, signal.SIGKILL)
assert kill_strays({{known.pid}}) == [running], "what its shard had killed is not left behind"
assert kill_strays({{known.pid}}) == []
for _ in range(200):
    kill_strays({{known.pid}})
    if not any(os.path.exists(f"/proc/{{pid}}") for pid in (killed, running)):
        break
    time.sleep(0.01)
else:
    sys.exit("the strays are still there")
assert known.poll() is None
known.kill()
"""


def test_a_process_that_lost_its_parent_is_ended_and_known_ones_are_not():
    done = subprocess.run(
        [sys.executable, "-c", WORKER], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


async def test_dead_children_that_nobody_collects_are_collected(monkeypatch):
    monkeypatch.setattr(strays, "COLLECT_INTERVAL_S", 0.02)
    child = subprocess.Popen(["true"])  # noqa: ASYNC220 - nobody may wait for it
    task = asyncio.create_task(strays.collect_zombies())
    try:
        await until(lambda: child.pid not in strays._children())
    finally:
        task.cancel()
        child.returncode = 0
