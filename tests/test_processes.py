from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from osmosis.platform.child import child_argv
from osmosis.processes import ProcessRecord, process_start_time, reap
from osmosis.worker.shard_process import shard_argv

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while process_start_time(pid) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_process_is_known_by_more_than_its_pid() -> None:
    me = ProcessRecord.of(os.getpid())
    assert me.is_alive()
    assert not replace(me, start_time="1").is_alive()
    assert not replace(me, boot_id="another boot").is_alive()
    assert not replace(me, start_time="1").send(signal.SIGKILL)


def test_the_reaper_ends_recorded_processes_and_leaves_strangers(tmp_path: Path) -> None:
    left, stranger = (subprocess.Popen(SLEEP, start_new_session=True) for _ in range(2))
    try:
        record = ProcessRecord.of(left.pid, "shard")
        other = ProcessRecord.of(stranger.pid, "reused pid")
        record.save(tmp_path)
        replace(other, start_time="1").save(tmp_path)
        (tmp_path / "damaged.json").write_text("{")
        assert [found.what for found in reap(tmp_path)] == ["shard"]
        assert left.wait(5) == -signal.SIGKILL
        assert stranger.poll() is None
        assert list(tmp_path.iterdir()) == []
    finally:
        for process in (left, stranger):
            process.kill()
            process.wait()


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text("import time; time.sleep(60)")
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, time; from osmosis.platform.child import child_argv\n"
            "print(subprocess.Popen(child_argv('sleeper')).pid, flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    deadline = time.monotonic() + 10
    while b"sleeper" not in Path(f"/proc/{child}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(child)


def test_files_beside_a_user_never_stand_in_for_the_modules_of_a_child(tmp_path: Path) -> None:
    (tmp_path / "html.py").write_text("raise SystemExit('read from the working directory')")
    for argv in (child_argv("html.parser"), [*shard_argv()[:-2], "html.parser"]):
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
