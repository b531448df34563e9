"""The gate: a threshold is reached, missed, or left undecided by what broke without the agent."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from osmosis.metrics import SampleOutcome, Summary, summarize
from osmosis.metrics.gate import Measured, Regression, RowResult, Thresholds, judge
from osmosis.wire.verdict import Verdict, verdict_of


def summary(
    passed: int = 0, missed: int = 0, broken: int = 0, crashed: int = 0, skipped: int = 0
) -> Summary:
    kinds = (
        (passed, ("success", 1.0, None, None)),
        (missed, ("success", 0.0, None, None)),
        (broken, ("failed", None, None, "timeout")),
        (crashed, ("failed", None, None, "agent_error")),
        (skipped, ("skipped", None, None, None)),
    )
    outcomes = [kind for number, kind in kinds for _ in range(number)]
    samples = [SampleOutcome(row, 0, *outcome) for row, outcome in enumerate(outcomes)]
    return summarize(samples, pass_threshold=1.0, n=1)


def verdict(measured: Summary, **thresholds: float | None) -> Verdict:
    return judge(Measured("finished", measured), Thresholds(**thresholds))


@pytest.mark.parametrize(
    ("counts", "required", "outcome", "exit_code"),
    [
        ({"passed": 9, "missed": 1}, 0.9, "passed", 0),
        ({"passed": 9, "missed": 1}, 0.91, "failed", 3),
        ({"passed": 8, "broken": 2}, 0.9, "incomplete", 4),
        ({"passed": 8, "broken": 2}, 0.8, "passed", 0),
        ({"passed": 5, "missed": 3, "broken": 2}, 0.8, "failed", 3),
        ({"passed": 8, "crashed": 2}, 0.9, "failed", 3),
        ({"passed": 9, "missed": 1, "skipped": 90}, 0.9, "passed", 0),
        ({"skipped": 5}, 0.0, "incomplete", 4),
        ({"missed": 3}, 0.0, "passed", 0),
    ],
)
def test_a_pass_rate_counts_what_broke_both_ways(
    counts: dict[str, int], required: float, outcome: str, exit_code: int
) -> None:
    found = verdict(summary(**counts), min_pass_rate=required)
    assert (found.outcome, found.exit_code) == (outcome, exit_code)


def test_a_score_is_over_graded_samples() -> None:
    measured = summary(passed=3, missed=1, broken=4)
    assert verdict(measured, min_score=0.75).outcome == "passed"
    assert verdict(measured, min_score=0.76).outcome == "failed"
    assert verdict(summary(broken=2), min_score=0.1).outcome == "incomplete"


def test_one_row_that_always_fails_does_not_hide_in_a_good_mean() -> None:
    rows = [RowResult(7, 4, 0, 0, 0.0), RowResult(9, 4, 3, 0, 0.75)]
    measured = Measured("finished", summary(passed=99, missed=1), rows=rows)
    found = judge(measured, Thresholds(min_pass_rate=0.95, min_row_pass_rate=0.5))
    assert found.outcome == "failed"
    assert [check.outcome for check in found.checks] == ["passed", "failed"]
    assert found.checks[1].rows == (7,)
    assert "7" in found.checks[1].message


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        (RowResult(0, 4, 2, 0, 0.5), "passed"),
        (RowResult(0, 4, 1, 1, 0.3), "incomplete"),
        (RowResult(0, 4, 1, 0, 0.3), "failed"),
        (RowResult(0, 1, 0, 1, None), "incomplete"),
        (RowResult(0, 1, 0, 0, None), "failed"),
    ],
)
def test_a_row_threshold_is_three_valued_too(row: RowResult, outcome: str) -> None:
    measured = Measured("finished", summary(passed=1), rows=[row])
    assert judge(measured, Thresholds(min_row_pass_rate=0.5)).outcome == outcome


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        (RowResult(0, 2, 0, 0, 0.5), "passed"),
        (RowResult(0, 2, 0, 0, 0.49), "failed"),
        (RowResult(0, 2, 0, 2, None), "incomplete"),
        (RowResult(0, 2, 0, 1, None), "failed"),
    ],
)
def test_a_row_score_is_over_the_graded_samples_of_the_row(row: RowResult, outcome: str) -> None:
    measured = Measured("finished", summary(passed=1), rows=[row])
    assert judge(measured, Thresholds(min_row_score=0.5)).outcome == outcome


REGRESSION = Regression("brave-otter-1", fall=0.1, clean_fall=0.1, matched=40)


@pytest.mark.parametrize(
    ("change", "thresholds", "outcome"),
    [
        ({}, {}, "failed"),
        ({}, {"max_regression": 0.1}, "passed"),
        ({}, {"only_significant": True}, "passed"),
        ({"certain": True}, {"only_significant": True}, "failed"),
        ({"clean_fall": 0.0}, {}, "incomplete"),
        ({"clean_fall": None}, {}, "failed"),
        ({"fall": -0.2}, {}, "passed"),
        ({"fall": 0.0}, {}, "passed"),
        ({"fall": None, "reason": "other rows"}, {}, "incomplete"),
    ],
)
def test_a_fall_against_a_baseline(
    change: dict[str, object], thresholds: dict[str, float], outcome: str
) -> None:
    measured = Measured("finished", summary(passed=1), regression=replace(REGRESSION, **change))
    found = judge(measured, Thresholds(baseline="brave-otter-1", **thresholds))
    assert found.outcome == outcome
    assert "brave-otter-1" in found.checks[0].message


@pytest.mark.parametrize(
    ("status", "outcome", "exit_code"),
    [("failed", "error", 1), ("stopped", "incomplete", 4), ("running", "incomplete", 4)],
)
def test_a_run_that_is_not_whole_never_passes(status: str, outcome: str, exit_code: int) -> None:
    measured = Measured(status, summary(passed=10), stop_reason="budget", error="No key.")
    found = judge(measured, Thresholds(min_pass_rate=0.1))
    assert (found.outcome, found.exit_code) == (outcome, exit_code)
    assert found.checks == ()


def test_without_thresholds_a_finished_run_passes() -> None:
    assert verdict(summary(missed=3)).exit_code == 0


def test_a_verdict_survives_the_wire() -> None:
    found = verdict(summary(passed=8, broken=2, skipped=1), min_pass_rate=0.9, min_score=2)
    assert verdict_of(json.loads(json.dumps(found.body()))) == found
    assert len(found.notes) == 2
