"""Processes that lost their parents and came to us.

The worker is the reaper of its descendants (``adopt_orphans``). A living shard is the reaper of
its own; so a child of ours that we did not start belongs to a shard that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Set
from pathlib import Path

from osmosis.processes import is_ending, kill_tree, process_start_time

COLLECT_INTERVAL_S = 5.0


def kill_strays(known: Set[int]) -> list[int]:
    """Kill and collect every child of this process that is not ``known``.

    Returns those that would have lived on. What a shard had killed, and had no time to collect
    before its own end, is no stray.
    """
    strays: list[int] = []
    for pid in _children():
        if pid in known:
            continue
        if not is_ending(pid):
            strays.append(pid)
        kill_tree(pid)
        # One that is not dead yet is collected next time.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return strays


async def collect_zombies() -> None:
    """Collect adopted children that have died, for ever. Own children collect themselves at once,
    so what is dead in two looks in a row has nobody else.
    """
    before: set[int] = set()
    while True:
        await asyncio.sleep(COLLECT_INTERVAL_S)
        dead = {pid for pid in _children() if process_start_time(pid) is None}
        for pid in dead & before:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222 - WNOHANG does not wait
        before = dead


def _children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in task.read_text().split()]
    return found
