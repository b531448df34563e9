"""The life of child processes: they die with their parent, are recorded, and are reaped.

A process is known by (pid, start time, boot id): a pid alone may have been given to a stranger.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

KILL_WAIT_S = 5.0
"""How long a killed process may take to leave the process table."""

POLL_S = 0.02

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

_DIE_WITH_PARENT_LAUNCHER = """
import ctypes, os, sys
parent = int(sys.argv[1])
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != parent:
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


# --- records and the reaper ------------------------------------------------------------------


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
    stat = _stat(pid)
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


# --- dying with the parent -------------------------------------------------------------------


def die_with_parent(argv: list[str]) -> list[str]:
    """``argv`` behind a launcher that asks for SIGKILL when the thread that starts it ends.

    A launcher instead of ``preexec_fn``: Python code between fork and exec may deadlock when the
    parent has threads. Start it from the main thread, for the kernel means the thread.
    """
    if sys.platform != "linux":
        return argv
    setpriv = shutil.which("setpriv")
    if setpriv:
        return [setpriv, "--pdeathsig", "KILL", "--", *argv]
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT_LAUNCHER, str(os.getpid()), *argv]


def die_with_my_parent(parent_pid: int) -> None:
    """For a process of ours that has just started: die when ``parent_pid`` does."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def shield_memory() -> None:
    """Forbid other processes of the same user to read this one's memory and environment.

    For a shard: user code runs under the same user id. Also keeps secrets out of core files.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends, so they can be found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# --- ending processes ------------------------------------------------------------------------


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
    _signal_group(pid, signal.SIGKILL)
    _signal_each([pid, *doomed], signal.SIGKILL)


def terminate(pids: Iterable[int]) -> None:
    """SIGTERM to each, ignoring those already gone."""
    _signal_each(pids, signal.SIGTERM)


def kill_marked(name: str, value: str) -> list[int]:
    """SIGKILL every process of this user that carries the environment entry ``name=value``.

    The net under everything else, for processes that left their group, session and parents.
    """
    marked: list[int] = []
    needle = f"{name}={value}".encode()
    for pid in map(int, _process_names()):
        if pid == os.getpid():
            continue
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if needle in environ.split(b"\0"):
            marked.append(pid)
    _signal_each(marked, signal.SIGKILL)
    return marked


async def kill_group(pgid: int, grace_s: float) -> None:
    """SIGTERM the group, wait until it is empty or ``grace_s`` is over, then SIGKILL it."""
    _signal_group(pgid, signal.SIGTERM)
    if not await _group_ends(pgid, grace_s):
        kill_tree(pgid)
        await _group_ends(pgid, KILL_WAIT_S)


def describe_exit(returncode: int) -> str:
    """``exit code 1`` or ``killed by SIGSEGV``, for a code as ``Popen`` or a shell gives it."""
    number = -returncode if returncode < 0 else returncode - 128 if returncode > 128 else 0
    try:
        name = signal.Signals(number).name if number else ""
    except ValueError:
        name = ""
    if not name:
        return f"exit code {returncode}"
    more = " (often: out of memory)" if name == "SIGKILL" else ""
    return f"killed by {name}{more}" if returncode < 0 else f"exit code {returncode} = {name}{more}"


# --- /proc -----------------------------------------------------------------------------------


def _stat(pid: int) -> list[str] | None:
    """/proc/<pid>/stat from the state on: [0] state, [1] parent, [2] group, [19] start time."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return text.rpartition(")")[2].split()


def _process_names() -> list[str]:
    try:
        return [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]
    except OSError:
        return []


def _parents() -> Mapping[int, int]:
    parents: dict[int, int] = {}
    for name in _process_names():
        stat = _stat(int(name))
        if stat is not None and stat[0] not in "ZX":
            parents[int(name)] = int(stat[1])
    return parents


async def _group_ends(pgid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while _group_lives(pgid):
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def _group_lives(pgid: int) -> bool:
    names = _process_names()
    if not names:
        try:
            os.killpg(pgid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
    for name in names:
        stat = _stat(int(name))
        if stat is not None and int(stat[2]) == pgid and stat[0] not in "ZX":
            return True
    return False


def _signal_group(pgid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, number)


def _signal_each(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
