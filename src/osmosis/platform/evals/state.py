"""What the rooms of runs keep in memory, on ``app.state.runs``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, FastAPI, Request

from osmosis.platform.evals.numbers import Numbers
from osmosis.platform.platform import Platform
from osmosis.platform.runners.logs import RunLogs
from osmosis.platform.runners.writers import SegmentWriters


@dataclass(frozen=True)
class RunState:
    """Open segment writers, summaries of running runs, counts of log lines. All can be lost."""

    writers: SegmentWriters
    numbers: Numbers
    logs: RunLogs


def install_run_state(app: FastAPI, platform: Platform) -> RunState:
    state = RunState(SegmentWriters(platform.settings), Numbers(), RunLogs(platform))
    app.state.runs = state
    return state


def get_run_state(request: Request) -> RunState:
    return request.app.state.runs


CurrentRuns = Annotated[RunState, Depends(get_run_state)]
