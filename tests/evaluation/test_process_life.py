import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from osmosis.evaluation.process_life import describe_exit, die_with_parent, kill_group, kill_marked
from osmosis.processes import ProcessRecord, descendants, process_start_time, reap

IGNORES_SIGTERM = "trap '' TERM; sleep 300 & echo ready; wait; wait"


def start(script, **more):
    return subprocess.Popen(
        ["/bin/sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE, **more
    )


def until(condition, within_s=10.0):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def gone(pid):
    return process_start_time(pid) is None


def test_a_record_knows_its_process_from_a_later_one_of_the_same_pid():
    child = start("sleep 300")
    record = ProcessRecord.of(child.pid)
    assert record.is_alive()
    assert not ProcessRecord(record.pid, "1", record.boot_id).is_alive()
    assert not ProcessRecord(record.pid, record.start_time, "another boot").is_alive()
    child.kill()
    child.wait()
    child.stdout.close()
    assert not record.is_alive()
    with pytest.raises(ProcessLookupError):
        ProcessRecord.of(child.pid)


def test_the_reaper_ends_what_an_earlier_life_left_and_nothing_else(tmp_path):
    left, stranger = start("sleep 300 & wait"), start("sleep 300")
    record = ProcessRecord.of(left.pid, "rollout")
    record.save(tmp_path)
    ProcessRecord(stranger.pid, "1", record.boot_id).save(tmp_path)
    (tmp_path / "torn.json").write_text("{")
    assert reap(tmp_path) == [record]
    left.wait(10)
    assert stranger.poll() is None
    assert list(tmp_path.iterdir()) == []
    stranger.kill()
    stranger.wait()
    for child in (left, stranger):
        child.stdout.close()


async def test_a_group_that_ignores_sigterm_is_killed_after_the_grace():
    child = start(IGNORES_SIGTERM)
    assert child.stdout.readline() == b"ready\n"
    until(lambda: len(descendants(child.pid)) == 1)
    (below,) = descendants(child.pid)
    started = time.monotonic()
    waiting = asyncio.create_task(asyncio.to_thread(child.wait))
    await kill_group(child.pid, grace_s=0.2)
    await waiting
    assert time.monotonic() - started < 5
    until(lambda: gone(below))
    child.stdout.close()


async def test_a_group_that_obeys_is_not_killed():
    child = start("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done")
    assert child.stdout.readline() == b"ready\n"
    waiting = asyncio.create_task(asyncio.to_thread(child.wait))
    await kill_group(child.pid, grace_s=10)
    assert await waiting == 7
    child.stdout.close()


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are of Linux")
def test_a_child_dies_with_its_parent():
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(eval(sys.argv[1]), start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(300)\n"
    )
    argv = die_with_parent(["sleep", "300"])
    parent = subprocess.Popen([sys.executable, "-c", code, repr(argv)], stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    # The launcher turns into the program once the signal is arranged.
    until(lambda: Path(f"/proc/{child}/cmdline").read_bytes() == b"sleep\x00300\x00")
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: gone(child))


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_a_shielded_process_cannot_be_read_by_its_user():
    code = (
        "import ctypes\n"
        "from osmosis.evaluation.process_life import shield_memory\n"
        "shield_memory()\n"
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"  # PR_GET_DUMPABLE
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"0\n"


def test_processes_that_left_everything_are_found_by_their_mark():
    child = start("setsid sleep 300 & exit 0", env={**os.environ, "MARK_OF_TEST": "m-123"})
    child.wait()
    child.stdout.close()
    until(lambda: bool(kill_marked("MARK_OF_TEST", "m-123")))
    until(lambda: not kill_marked("MARK_OF_TEST", "m-123"))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "exit code 1"),
        (-signal.SIGSEGV, "killed by SIGSEGV"),
        (139, "exit code 139 = SIGSEGV"),
        (255, "exit code 255"),
    ],
)
def test_an_exit_is_described_by_name(code, text):
    assert describe_exit(code) == text
