"""What the shards of a run say, put together into what the run says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from osmosis.evaluation.plan import DRAINED
from osmosis.wire.runner import FinishRequest, HeartbeatRequest, Stage
from osmosis.worker.channel import ShardState

STAGES: tuple[Stage, ...] = get_args(Stage)
FROM_RUNNING_ON: tuple[Stage, ...] = ("running", "summarizing")


def run_state(states: Sequence[ShardState]) -> HeartbeatRequest:
    """Of the shards that live or have ended; in flight is the sum, the lag the worst of them."""
    living = [state for state in states if state.end is None]
    in_flight = [state.in_flight for state in living if state.in_flight is not None]
    lags = [state.loop_lag_ms for state in living if state.loop_lag_ms is not None]
    waits = [state.waiting_for for state in living if state.waiting_for is not None]
    return HeartbeatRequest(
        stage=_stage([state.stage for state in states]),
        in_flight=sum(in_flight) if in_flight else None,
        waiting_for=waits[0] if waits else None,
        effective=effective_values(states) or None,
        loop_lag_ms=max(lags, default=None),
    )


def effective_values(states: Sequence[ShardState]) -> dict[str, Any]:
    """The same in each slice, but for what only the first to start found out: it has the word."""
    values: dict[str, Any] = {}
    for state in states:
        values = {**(state.effective or {}), **values}
    return values


def run_end(
    ends: Sequence[FinishRequest], halted: FinishRequest | None, *, complete: bool
) -> FinishRequest:
    """How the run ends whose slices ended so, in the order in which they did.

    ``halted`` is what a shard said when it made the others stop, if one did; ``complete``: no slice
    is missing among ``ends``. Of several that say that a budget is spent the last knows best.
    """
    told = [*ends, *([halted] if halted is not None else [])]
    failed = [end for end in told if end.status == "failed"]
    if failed:
        return failed[0]
    if complete and all(end.status == "finished" for end in ends):
        return FinishRequest(status="finished")
    stopped = [
        end for end in ends if end.status == "stopped" and end.stop_reason not in (None, DRAINED)
    ]
    return (stopped or [halted or FinishRequest(status="stopped", stop_reason="user")])[-1]


def _stage(stages: Sequence[Stage | None]) -> Stage | None:
    """The furthest of those that start, for the others only follow it; then ``running`` until the
    last one has done its samples."""
    known = [stage for stage in stages if stage is not None]
    if not any(stage in FROM_RUNNING_ON for stage in known):
        return STAGES[max(STAGES.index(stage) for stage in known)] if known else None
    return "summarizing" if all(stage == "summarizing" for stage in stages) else "running"
