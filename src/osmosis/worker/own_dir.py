"""A worker's own scratch directory, and the end of what earlier workers left behind.

<work>/<pid>-<start time>/owner.lock      held by its worker
                          processes/      one record per shard (process_life)
                          <run>-<serial>/ one run: a log for each slice, a directory for each shard
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from osmosis.processes import ProcessRecord, reap

OWNER_FILE = "owner.lock"


@contextmanager
def own_dir(work_dir: Path) -> Generator[Path]:
    """A fresh directory that is ours while we live; leftovers of dead workers are removed."""
    work_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_leftovers(work_dir)
    record = ProcessRecord.of(os.getpid(), "worker")
    directory = work_dir / f"worker-{record.pid}-{record.start_time}"
    directory.mkdir(mode=0o700)
    # The kernel lets the lock go when we die, however we die.
    with (directory / OWNER_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _remove_leftovers(work_dir: Path) -> None:
    for directory in work_dir.glob("worker-*"):
        try:
            with (directory / OWNER_FILE).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                reap(directory / "processes")
                _reap_rollouts(directory)
                shutil.rmtree(directory, ignore_errors=True)
        except FileNotFoundError:
            continue  # just being made, or just being removed
        except BlockingIOError:
            continue  # its worker lives


def _reap_rollouts(directory: Path) -> None:
    """Rollout processes record themselves inside the run's directory (rollout_process)."""
    for records in directory.glob("*/*/run/processes"):
        reap(records)
