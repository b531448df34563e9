"""The life of child processes: they die with their parent, and end with all that they started."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from osmosis.processes import kill_tree, process_names, process_stat, signal_each, signal_group

KILL_WAIT_S = 5.0
"""How long a killed process may take to leave the process table."""

POLL_S = 0.02

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


def terminate(pids: Iterable[int]) -> None:
    """SIGTERM to each, ignoring those already gone."""
    signal_each(pids, signal.SIGTERM)


def kill_marked(name: str, value: str) -> list[int]:
    """SIGKILL every process of this user that carries the environment entry ``name=value``.

    The net under everything else, for processes that left their group, session and parents.
    """
    marked: list[int] = []
    needle = f"{name}={value}".encode()
    for pid in map(int, process_names()):
        if pid == os.getpid():
            continue
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if needle in environ.split(b"\0"):
            marked.append(pid)
    signal_each(marked, signal.SIGKILL)
    return marked


async def kill_group(pgid: int, grace_s: float) -> None:
    """SIGTERM the group, wait until it is empty or ``grace_s`` is over, then SIGKILL it."""
    signal_group(pgid, signal.SIGTERM)
    if not await _group_ends(pgid, grace_s):
        kill_tree(pgid)
        await _group_ends(pgid, KILL_WAIT_S)


def was_killed(returncode: int | None) -> bool:
    """Whether SIGKILL ended it, which is how an operator or the kernel ends a process."""
    return returncode is not None and _signal_number(returncode) == signal.SIGKILL


def describe_exit(returncode: int) -> str:
    """``exit code 1`` or ``killed by SIGSEGV``, for a code as ``Popen`` or a shell gives it."""
    number = _signal_number(returncode)
    try:
        name = signal.Signals(number).name if number else ""
    except ValueError:
        name = ""
    if not name:
        return f"exit code {returncode}"
    more = " (often: out of memory)" if name == "SIGKILL" else ""
    return f"killed by {name}{more}" if returncode < 0 else f"exit code {returncode} = {name}{more}"


def _signal_number(returncode: int) -> int:
    return -returncode if returncode < 0 else returncode - 128 if returncode > 128 else 0


# --- /proc -----------------------------------------------------------------------------------


async def _group_ends(pgid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while _group_lives(pgid):
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def _group_lives(pgid: int) -> bool:
    names = process_names()
    if not names:
        try:
            os.killpg(pgid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
    for name in names:
        stat = process_stat(int(name))
        if stat is not None and int(stat[2]) == pgid and stat[0] not in "ZX":
            return True
    return False
