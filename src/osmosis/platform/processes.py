"""Processes by an identity that survives the reuse of pids: (pid, start time, boot id)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from pydantic import BaseModel

PR_SET_PDEATHSIG = 1


class ProcessIdentity(BaseModel):
    """One process of one boot. ``start_time`` is in clock ticks since boot, as the kernel says."""

    pid: int
    start_time: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The identity of a live process; None when there is none."""
        started = _start_time(pid)
        return None if started is None else cls(pid=pid, start_time=started, boot_id=boot_id())

    def alive(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    def signal(self, number: int, *, group: bool = False) -> bool:
        """Signal this very process (or the group it leads); False when it is gone."""
        if not self.alive():
            return False
        try:
            if group and os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies (Linux; elsewhere nothing)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _start_time(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name stands in brackets and may hold anything, so count from the last one.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
