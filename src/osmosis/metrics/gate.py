"""Whether a run reaches its thresholds.

A failure of the provider, the platform or a clock says nothing about the agent. So a rate has two
ends: such samples count as not passed (the documented ``pass_rate``), or as passed. A threshold
below both ends is reached, one above both is missed, and one between is left undecided: the run
is then incomplete, and neither a success nor the agent's failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from osmosis.metrics.summary import Summary
from osmosis.wire.verdict import (
    Check,
    CheckOutcome,
    GateOutcome,
    Verdict,
    outcome_of_status,
)

SHOWN_ROWS = 20


@dataclass(frozen=True)
class Thresholds:
    """What a run must reach; None asks for nothing. Rates and ``max_regression`` are fractions.

    The row thresholds hold for each row by itself, over its n samples, so that one row that
    always fails cannot hide in a good mean. A regression against ``baseline`` is a fall of the
    pass rate over the rows that both runs have; with ``only_significant`` a fall that chance
    explains is let through.
    """

    min_pass_rate: float | None = None
    min_score: float | None = None
    min_row_pass_rate: float | None = None
    min_row_score: float | None = None
    baseline: str | None = None
    max_regression: float = 0.0
    only_significant: bool = False


@dataclass(frozen=True)
class RowResult:
    """One row over its samples that were not skipped. ``broken`` of them failed by no fault of
    the agent's; ``mean`` is over the graded ones, None without any."""

    row_index: int
    attempts: int
    passed: int
    broken: int
    mean: float | None


RowOutcomes = Sequence[tuple[RowResult, CheckOutcome]]


@dataclass(frozen=True)
class Regression:
    """The fall of the pass rate from a baseline to this run, over the rows that both have.

    ``fall`` is positive when this run is worse; None when no row can be compared, for the
    ``reason`` that is given. ``clean_fall`` is the same without samples that broke, ``certain``
    says that a fall beyond what is allowed is certain at 95 %.
    """

    baseline: str
    fall: float | None = None
    clean_fall: float | None = None
    certain: bool = False
    matched: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Measured:
    """What a gate looks at. ``rows`` holds at least every row that is below a row threshold."""

    status: str
    summary: Summary
    stop_reason: str | None = None
    error: str | None = None
    rows: Sequence[RowResult] = field(default=())
    regression: Regression | None = None


def judge(measured: Measured, thresholds: Thresholds) -> Verdict:
    """The verdict on a run. Without any threshold, the end of the run alone decides."""
    ended = outcome_of_status(measured.status)
    if ended == "error":
        return Verdict(ended, f"The run failed: {measured.error or 'see its log'}")
    if ended == "incomplete":
        return Verdict(ended, _unfinished(measured))
    checks = tuple(_checks(measured, thresholds))
    failed = [check for check in checks if check.outcome == "failed"]
    undecided = [check for check in checks if check.outcome == "undecided"]
    outcome: GateOutcome = "failed" if failed else "incomplete" if undecided else "passed"
    if failed:
        message = f"{len(failed)} of {len(checks)} thresholds missed."
    elif undecided:
        message = f"{len(undecided)} of {len(checks)} thresholds undecided."
    elif checks:
        message = f"{len(checks)} of {len(checks)} thresholds reached."
    else:
        message = "The run has finished."
    return Verdict(outcome, message, checks, tuple(_notes(measured)))


def _unfinished(measured: Measured) -> str:
    if measured.status == "stopped":
        reason = f" ({measured.stop_reason})" if measured.stop_reason else ""
        return f"The run was stopped{reason}, so its numbers are not those of a full run."
    return f"The run is {measured.status}; it has no verdict yet."


def _notes(measured: Measured) -> list[str]:
    summary = measured.summary
    notes: list[str] = []
    if broken := summary.infrastructure_failures:
        notes.append(
            f"{_samples(broken)} failed by no fault of the agent's; the pass rate counts "
            f"{'it' if broken == 1 else 'them'} as not passed."
        )
    if summary.skipped:
        notes.append(f"{_samples(summary.skipped)} skipped; no rate counts them.")
    return notes


def _checks(measured: Measured, wanted: Thresholds) -> list[Check]:
    summary = measured.summary
    checks: list[Check] = []
    if wanted.min_pass_rate is not None:
        checks.append(_pass_rate(summary, wanted.min_pass_rate))
    if wanted.min_score is not None:
        checks.append(_score(summary, wanted.min_score))
    if wanted.min_row_pass_rate is not None:
        checks.append(_row_pass_rate(measured.rows, wanted.min_row_pass_rate))
    if wanted.min_row_score is not None:
        checks.append(_row_score(measured.rows, wanted.min_row_score))
    if measured.regression is not None:
        checks.append(_regression(measured.regression, wanted))
    return checks


def _pass_rate(summary: Summary, required: float) -> Check:
    completed = summary.completed_samples
    if not completed:
        return _nothing("min_pass_rate", required)
    best = min(1.0, (summary.passed + summary.infrastructure_failures) / completed)
    outcome = _between(summary.pass_rate, best, required)
    message = (
        f"pass rate {_percent(summary.pass_rate)} ({summary.passed} of {completed}), at least "
        f"{_percent(required)} wanted"
    )
    if outcome == "undecided":
        message += f"; {_percent(best)} if every sample that broke had passed"
    return Check("min_pass_rate", outcome, required, summary.pass_rate, message)


def _score(summary: Summary, required: float) -> Check:
    stats = summary.reward_stats
    if stats is None:
        return _nothing("min_score", required)
    outcome: CheckOutcome = "passed" if stats.mean >= required else "failed"
    message = (
        f"mean reward {stats.mean:.4g} of {summary.graded} graded, at least {required:g} wanted"
    )
    return Check("min_score", outcome, required, stats.mean, message)


def _row_pass_rate(rows: Sequence[RowResult], required: float) -> Check:
    outcomes: RowOutcomes = [
        (
            row,
            _between(row.passed / row.attempts, (row.passed + row.broken) / row.attempts, required),
        )
        for row in rows
        if row.attempts
    ]
    worst = min((row.passed / row.attempts for row in rows if row.attempts), default=None)
    wanted = f"each row's pass rate at least {_percent(required)}"
    return _of_rows("min_row_pass_rate", required, worst, outcomes, wanted)


def _row_score(rows: Sequence[RowResult], required: float) -> Check:
    outcomes: RowOutcomes = [(row, _row_mean(row, required)) for row in rows if row.attempts]
    worst = min((row.mean for row in rows if row.mean is not None), default=None)
    wanted = f"each row's mean reward at least {required:g}"
    return _of_rows("min_row_score", required, worst, outcomes, wanted)


def _row_mean(row: RowResult, required: float) -> CheckOutcome:
    if row.mean is None:
        return "undecided" if row.broken == row.attempts else "failed"
    return "passed" if row.mean >= required else "failed"


def _of_rows(
    name: str,
    required: float,
    worst: float | None,
    outcomes: RowOutcomes,
    wanted: str,
) -> Check:
    failed = [row.row_index for row, outcome in outcomes if outcome == "failed"]
    undecided = [row.row_index for row, outcome in outcomes if outcome == "undecided"]
    reason = failed or undecided
    if not reason:
        return Check(name, "passed", required, worst, f"no row below: {wanted}")
    shown = ", ".join(map(str, reason[:SHOWN_ROWS])) + (" ..." if len(reason) > SHOWN_ROWS else "")
    what = "below" if failed else "undecided, with samples that broke"
    message = f"{len(reason)} row{'' if len(reason) == 1 else 's'} {what} ({shown}): {wanted}"
    outcome: CheckOutcome = "failed" if failed else "undecided"
    return Check(name, outcome, required, worst, message, tuple(reason[:SHOWN_ROWS]))


def _regression(found: Regression, wanted: Thresholds) -> Check:
    name, allowed = "max_regression", wanted.max_regression
    if found.fall is None:
        message = f"nothing of {found.baseline} can be compared: {found.reason}"
        return Check(name, "undecided", allowed, None, message)
    direction = "fell" if found.fall > 0 else "rose"
    change = f"{direction} by {_points(abs(found.fall))}" if found.fall else "did not change"
    message = (
        f"pass rate {change} against {found.baseline} over "
        f"{found.matched} shared row{'' if found.matched == 1 else 's'}, at most "
        f"a fall of {_points(allowed)} wanted"
    )
    outcome: CheckOutcome = "passed"
    if found.fall > allowed:
        held_without = found.clean_fall is not None and found.clean_fall <= allowed
        if found.certain:
            message += "; chance does not explain it"
        else:
            message += "; chance may explain it"
        if wanted.only_significant and not found.certain:
            outcome = "passed"
        elif held_without:
            outcome = "undecided"
            message += "; without the samples that broke it holds"
        else:
            outcome = "failed"
    return Check(name, outcome, allowed, found.fall, message)


def _between(low: float, high: float, required: float) -> CheckOutcome:
    if low >= required:
        return "passed"
    return "undecided" if high >= required else "failed"


def _nothing(name: str, required: float) -> Check:
    return Check(name, "undecided", required, None, "no sample was graded")


def _samples(number: int) -> str:
    return f"{number} sample{'' if number == 1 else 's'}"


def _percent(value: float) -> str:
    return f"{value * 100:.4g}%"


def _points(value: float) -> str:
    return f"{value * 100:.4g} points"
