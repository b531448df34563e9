"""Processes by an identity that outlives the reuse of pids; their records, and the reaper.

A process is known by (pid, start time, boot id): a pid alone may have been given to a stranger.
Server, worker, engine and client share this, so it knows nothing of them and needs only the
standard library.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PF_EXITING = 4
_PENDING = ("SigPnd:", "ShdPnd:")


@dataclass(frozen=True)
class ProcessRecord:
    """One process, told apart from every later process of the same pid."""

    pid: int
    start_time: str
    boot_id: str
    what: str = ""

    @classmethod
    def of(cls, pid: int, what: str = "") -> ProcessRecord:
        """The record of a living process; raises ProcessLookupError when there is none."""
        start_time = process_start_time(pid)
        if start_time is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid=pid, start_time=start_time, boot_id=boot_id(), what=what)

    def is_alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return self.boot_id == boot_id() and self.start_time == process_start_time(self.pid)

    def send(self, number: int) -> bool:
        """Signal this very process; False when it is gone."""
        if not self.is_alive():
            return False
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def save(self, directory: Path) -> Path:
        """Write the record into ``directory`` for :func:`reap`; returns the file."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.pid}-{self.start_time}.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self)))
        partial.replace(path)
        return path


def reap(directory: Path) -> list[ProcessRecord]:
    """End every recorded process that an earlier life left running, with its whole group.

    Returns those that were still alive. Their records are removed.
    """
    survivors: list[ProcessRecord] = []
    for path in sorted(directory.glob("*.json")) if directory.is_dir() else []:
        try:
            record = ProcessRecord(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            path.unlink(missing_ok=True)
            continue
        if record.is_alive():
            survivors.append(record)
            kill_tree(record.pid)
        path.unlink(missing_ok=True)
    return survivors


@cache
def boot_id() -> str:
    """Names this boot of the machine; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_start_time(pid: int) -> str | None:
    """When the process started, in the system's own unit; None when it is gone or a zombie."""
    stat = process_stat(pid)
    if stat is not None:
        return None if stat[0] in "ZX" else stat[19]
    if sys.platform == "linux":
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "unknown"


def die_with_my_parent(parent_pid: int) -> None:
    """For a process of ours that has just started: die when ``parent_pid`` does."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def descendants(pid: int, *, min_depth: int = 1) -> list[int]:
    """Living descendants of ``pid``, parents first, that stand at least ``min_depth`` below it."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents().items():
        children.setdefault(parent, []).append(child)
    found: list[int] = []
    level, depth = [pid], 0
    while level:
        found += level if depth >= min_depth else []
        level = [child for parent in level for child in children.get(parent, [])]
        depth += 1
    return found


def kill_tree(pid: int) -> None:
    """SIGKILL the process group of ``pid`` and every descendant, also those in other sessions."""
    doomed = descendants(pid)
    signal_group(pid, signal.SIGKILL)
    signal_each([pid, *doomed], signal.SIGKILL)


def signal_group(pgid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, number)


def signal_each(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def is_ending(pid: int) -> bool:
    """Whether the process is dead, on its way out, or about to take a SIGKILL."""
    stat = process_stat(pid)
    if stat is None or stat[0] in "ZX" or int(stat[6]) & _PF_EXITING:
        return True
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    pending = (line.split()[1] for line in status.splitlines() if line.startswith(_PENDING))
    return any(int(mask, 16) & 1 << (signal.SIGKILL - 1) for mask in pending)


def process_stat(pid: int) -> list[str] | None:
    """/proc/<pid>/stat from the state on: [0] state, [1] parent, [2] group, [6] flags, [19] start
    time."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return text.rpartition(")")[2].split()


def process_names() -> list[str]:
    try:
        return [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]
    except OSError:
        return []


def _parents() -> Mapping[int, int]:
    parents: dict[int, int] = {}
    for name in process_names():
        stat = process_stat(int(name))
        if stat is not None and stat[0] not in "ZX":
            parents[int(name)] = int(stat[1])
    return parents
