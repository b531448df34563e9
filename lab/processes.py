"""CPU of a process tree, dead children included, read from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> Iterator[int]:
    """The process and all its living descendants."""
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from tree(int(child))


def cpu_s(pid: int) -> float:
    """CPU seconds of the tree so far: each process's own and of the children it waited for."""
    return sum(_own_and_waited_s(member) for member in tree(pid))


def _own_and_waited_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_S


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def find(root: int, *words: str) -> list[int]:
    """The descendants of ``root`` whose command line holds every word."""
    return [
        pid
        for pid in tree(root)
        if pid != root and all(word in command_line(pid) for word in words)
    ]


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def command_lines_with(mark: str) -> list[str]:
    """Command lines of this machine's processes that hold ``mark``."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [line for pid in pids if mark in (line := command_line(pid))]
