"""Several shards, one run: what its page shows, and how it ends."""

from __future__ import annotations

import pytest

from osmosis.evaluation.plan import DRAINED
from osmosis.wire.runner import FinishRequest, RunError
from osmosis.worker.channel import ShardState
from osmosis.worker.run_state import run_end, run_state

FINISHED = FinishRequest(status="finished")
DRAINED_ONE = FinishRequest(status="stopped", stop_reason=DRAINED)
BY_USER = FinishRequest(status="stopped", stop_reason="user")
FAILED = FinishRequest(status="failed", error=RunError(kind="model_key_rejected", message="no"))


def budget(sentence: str) -> FinishRequest:
    return FinishRequest(status="stopped", stop_reason="budget", stop_message=sentence)


@pytest.mark.parametrize(
    ("stages", "shown"),
    [
        ([], None),
        (["cloning"], "cloning"),
        (["installing", "cloning"], "installing"),
        ([None, "installing", None], "installing"),
        (["running", "cloning"], "running"),
        (["summarizing", None], "running"),
        (["summarizing", "installing"], "running"),
        (["summarizing", "running"], "running"),
        (["summarizing", "summarizing"], "summarizing"),
    ],
)
def test_the_stage_never_goes_back_and_ends_with_the_last(stages, shown):
    assert run_state([ShardState(stage=stage) for stage in stages]).stage == shown


def test_what_is_in_flight_adds_up_and_the_worst_lag_counts():
    shown = run_state(
        [
            ShardState(in_flight=3, loop_lag_ms=5.0, effective={"shards": 3, "cached": False}),
            ShardState(in_flight=4, loop_lag_ms=9.0, waiting_for="row 7", effective={"cached": 1}),
            ShardState(in_flight=5, loop_lag_ms=99.0, waiting_for="row 8", end=FINISHED),
        ]
    )
    assert (shown.in_flight, shown.loop_lag_ms, shown.waiting_for) == (7, 9.0, "row 7")
    assert shown.effective == {"shards": 3, "cached": False}, "the first one found out"
    assert run_state([ShardState()]).in_flight is None


@pytest.mark.parametrize(
    ("ends", "halted", "complete", "status", "reason"),
    [
        ([FINISHED, FINISHED], None, True, "finished", None),
        ([FINISHED, FINISHED], budget("spent"), True, "finished", None),
        ([FINISHED], None, False, "stopped", "user"),
        ([FINISHED, BY_USER], None, True, "stopped", "user"),
        ([DRAINED_ONE, FAILED], FAILED, True, "failed", None),
        ([FINISHED, DRAINED_ONE], FAILED, True, "failed", None),
        ([budget("old"), budget("new")], budget("first"), True, "stopped", "budget"),
        ([FINISHED, DRAINED_ONE], budget("spent"), True, "stopped", "budget"),
        ([FinishRequest(status="stopped")], None, True, "stopped", "user"),
    ],
)
def test_a_run_ends_as_its_slices_say(ends, halted, complete, status, reason):
    end = run_end(ends, halted, complete=complete)
    assert (end.status, end.stop_reason) == (status, reason)
    if reason == "budget":
        assert end.stop_message == ("new" if ends[0] != FINISHED else "spent")
