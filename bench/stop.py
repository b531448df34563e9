"""From a user's stop to a machine that is idle again."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.parts import part_of
from lab.processes import tree
from lab.workspace import Workspace

LIMIT_S = 30.0
LOOK_EVERY_S = 0.02
RUNNING_S = 1.0


def stop_to_idle_s(workspace: Workspace, config: str) -> float:
    """Submit a run, stop it while samples are in flight, and wait until its processes are gone."""
    server = workspace.lab.server
    assert server is not None
    run = workspace.submit(config)
    _until(lambda: "rollout" in _parts(server.pid))
    time.sleep(RUNNING_S)
    began = time.monotonic()
    workspace.osmosis("eval", "stop", run, "--yes")
    _until(lambda: "rollout" not in _parts(server.pid))
    workspace.wait(run, limit_s=LIMIT_S, every_s=LOOK_EVERY_S)
    return time.monotonic() - began


def _parts(server: int) -> set[str]:
    return {part_of(pid) for pid in tree(server)}


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("nothing happened for too long")
        time.sleep(LOOK_EVERY_S)
