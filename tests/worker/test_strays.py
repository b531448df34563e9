from __future__ import annotations

import asyncio
import subprocess
import sys

from osmosis.worker import strays
from tests.evaluation.engine_fakes import until

PARENT_OF_A_STRAY = """
import subprocess, sys
child = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
"""

WORKER = f"""
import subprocess, sys, time
from osmosis.evaluation.process_life import adopt_orphans
from osmosis.worker.strays import kill_strays
adopt_orphans()
known = subprocess.Popen(["sleep", "300"])
done = subprocess.run([sys.executable, "-c", {PARENT_OF_A_STRAY!r}], stdout=-1, text=True)
stray = int(done.stdout)
assert kill_strays({{known.pid}}) == [stray]
for _ in range(200):
    if not kill_strays({{known.pid}}):
        break
    time.sleep(0.01)
else:
    sys.exit("the stray is still there")
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
