"""What the rooms of runs keep in memory, on ``app.state.runs``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, FastAPI, Request

from osmosis.platform.evals.numbers import Numbers
from osmosis.platform.platform import Platform
from osmosis.platform.runners.logs import RunLogs
from osmosis.platform.runners.responses import ResponseStores
from osmosis.platform.runners.writers import SegmentWriters


@dataclass(frozen=True)
class RunState:
    """Segment writers, summaries, line counts, known workers: all of it can be lost."""

    writers: SegmentWriters
    numbers: Numbers
    logs: RunLogs
    responses: ResponseStores
    workers: dict[str, float] = field(default_factory=dict[str, float])
    """Digests of worker tokens, and until when each is trusted without a look-up."""


def install_run_state(app: FastAPI, platform: Platform) -> RunState:
    state = RunState(
        SegmentWriters(platform.settings),
        Numbers(platform.db),
        RunLogs(platform),
        ResponseStores(platform.settings),
    )
    app.state.runs = state
    return state


def run_state_of(request: Request) -> RunState:
    """The state of the runs on the platform that answers the request."""
    return request.app.state.runs


async def get_run_state(request: Request) -> RunState:
    return run_state_of(request)


CurrentRuns = Annotated[RunState, Depends(get_run_state)]
