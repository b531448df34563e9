"""The platform's processes by the part they play: server, worker, shard, rollout, and nursery, from
which shards are forked.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lab.processes import TICKS_PER_S, command_line, tree

LOOK_EVERY_S = 0.1
SURE = frozenset({"server", "worker", "shard", "rollout"})
"""What a process stays; one that a nursery has just forked still looks like its parent."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def part_of(pid: int) -> str:
    words = command_line(pid)
    if "osmosis.worker.shard_nursery" in words:
        return "nursery"
    if "osmosis.worker.shard" in words:
        return "shard"
    if "osmosis.worker" in words:
        return "worker"
    if "server start" in words:
        return "server"
    if "rollouts/" in words or ".py" in words:
        return "rollout"
    return "other"


def cpu_s(pid: int) -> float:
    """CPU seconds of the process alone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S if fields else 0.0


def rss_bytes(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[21]) * PAGE_BYTES if fields else 0


def rss_by_part(root: int) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for pid in tree(root):
        found[part_of(pid)] += rss_bytes(pid)
    return found


@contextmanager
def cpu_by_part(root: int) -> Generator[dict[str, float]]:
    """Seconds of CPU by part, complete when the block has ended.

    Processes are looked at ten times a second, so the last moment of one that ends is missing.
    """
    first: dict[int, float] = {pid: cpu_s(pid) for pid in tree(root)}
    last: dict[int, float] = {}
    parts: dict[int, str] = {}
    ended = threading.Event()
    found: dict[str, float] = defaultdict(float)

    def look() -> None:
        for pid in tree(root):
            last[pid] = max(cpu_s(pid), last.get(pid, 0.0))
            # A forked shard shows its parent's name first, and a process that ends none at all.
            part = part_of(pid)
            if part != "other" or pid not in parts:
                parts[pid] = part

    def watch() -> None:
        while not ended.wait(LOOK_EVERY_S):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()
        look()
        for pid, seconds in last.items():
            found[parts[pid]] += seconds - first.get(pid, 0.0)


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
