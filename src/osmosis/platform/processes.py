"""Processes by an identity that outlives the reuse of pids, their records, and the reaper.

A record is a file ``<pid>-<start time>.json`` in ``<data>/processes``. Whoever starts a process
that could outlive the server writes one; the next start of the server ends what is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

from pydantic import BaseModel, ValidationError

PR_SET_PDEATHSIG = 1


class ProcessRecord(BaseModel):
    """One process of one boot. ``start_time`` is in the system's own unit."""

    pid: int
    start_time: str
    boot_id: str
    what: str = ""

    @classmethod
    def of(cls, pid: int, what: str = "") -> ProcessRecord | None:
        """The record of a live process; None when there is none."""
        started = start_time(pid)
        if started is None:
            return None
        return cls(pid=pid, start_time=started, boot_id=boot_id(), what=what)

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return self.boot_id == boot_id() and self.start_time == start_time(self.pid)

    def send(self, number: int) -> bool:
        """Signal this very process; False when it is gone."""
        if not self.alive():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def kill_group(self) -> None:
        """SIGKILL this process and the group that it leads."""
        if not self.alive():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
            os.kill(self.pid, signal.SIGKILL)

    def save(self, directory: Path) -> Path:
        path = directory / f"{self.pid}-{self.start_time}.json"
        partial = path.with_suffix(".partial")
        partial.write_text(self.model_dump_json())
        partial.replace(path)
        return path


def reap(directory: Path) -> list[ProcessRecord]:
    """End every recorded process that an earlier life left, with its group; returns those."""
    left: list[ProcessRecord] = []
    for path in sorted(directory.glob("*.json")):
        try:
            record = ProcessRecord.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            record = None
        if record is not None and record.alive():
            left.append(record)
            record.kill_group()
        path.unlink(missing_ok=True)
    return left


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies (Linux; elsewhere nothing)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def boot_id() -> str:
    """Names this boot of the machine; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def start_time(pid: int) -> str | None:
    """When the process started; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None if sys.platform == "linux" else _start_time_without_proc(pid)
    # The command's name stands in brackets and may hold anything, so count from the last one.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def _start_time_without_proc(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "unknown"
