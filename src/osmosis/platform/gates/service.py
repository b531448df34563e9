"""What a gate looks at, read from the database; :mod:`osmosis.metrics.gate` judges it."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, case, func, or_, select

from osmosis.metrics.error_types import is_infrastructure
from osmosis.metrics.gate import Measured, Regression, RowResult, Thresholds, judge
from osmosis.metrics.summary import Summary
from osmosis.platform.comparisons.service import Comparisons
from osmosis.platform.db.models import Run, Sample
from osmosis.platform.evals.numbers import Numbers
from osmosis.platform.evals.service import find_run
from osmosis.platform.platform import Platform
from osmosis.wire.verdict import Verdict


async def judge_run(
    platform: Platform,
    numbers: Numbers,
    comparisons: Comparisons,
    workspace_id: str,
    *,
    ref: str,
    thresholds: Thresholds,
) -> Verdict:
    """The verdict on a run of the workspace, as it is now."""
    async with platform.db.read() as session:
        run, _ = await find_run(session, workspace_id, ref)
    summary = await numbers.summary(run)
    rows: list[RowResult] = []
    if thresholds.min_row_pass_rate is not None or thresholds.min_row_score is not None:
        rows = await platform.db.examine(
            lambda connection: rows_below(connection, run.id, summary, thresholds)
        )
    regression: Regression | None = None
    if thresholds.baseline is not None and run.sample_count:
        regression = await _regression(comparisons, run, thresholds.baseline, thresholds)
    measured = Measured(
        status=run.status,
        summary=summary,
        stop_reason=run.stop_reason,
        error=(run.error or {}).get("message"),
        rows=rows,
        regression=regression,
    )
    return judge(measured, thresholds)


async def _regression(
    comparisons: Comparisons, run: Run, baseline: str, thresholds: Thresholds
) -> Regression:
    compared = await comparisons.compare(run.workspace_id, [baseline, run.id], shown=0)
    name = compared.baseline.name
    (_, comparison) = compared.candidates[0]
    if comparison is None:
        return Regression(name, reason="it ran over another dataset, or other bytes of it")
    measure, clean = comparison.pass_rate, comparison.clean_pass_rate
    if measure is None:
        return Regression(name, reason="no row was recorded by both runs")
    # Loaded by now with the comparison; a server that compares nothing does without it.
    from osmosis.metrics.regression import judge_regression  # noqa: PLC0415

    verdict = judge_regression(measure.difference, thresholds.max_regression)
    return Regression(
        name,
        fall=-measure.difference.value,
        clean_fall=-clean.difference.value if clean is not None else None,
        certain=verdict.status == "regressed",
        matched=comparison.matched,
    )


def rows_below(
    connection: Connection, run_id: str, summary: Summary, thresholds: Thresholds
) -> list[RowResult]:
    """The rows that may be below a row threshold, by ``row_index``; no more than needed."""
    broken_kinds = [kind for kind in summary.errors if is_infrastructure(kind)]
    graded = case((Sample.reward.is_not(None), 1), else_=0)
    counts = (
        func.count().label("attempts"),
        func.sum(case((Sample.passed.is_(True), 1), else_=0)).label("passed"),
        func.sum(
            case((Sample.error_type.in_(broken_kinds) & Sample.passed.is_(False), 1), else_=0)
        ),
        func.sum(Sample.reward),
        func.sum(graded).label("graded"),
    )
    attempts, passed, _, total, n_graded = counts
    below: list[ColumnElement[bool]] = []
    if thresholds.min_row_pass_rate is not None:
        below.append(passed < attempts)
    if thresholds.min_row_score is not None:
        below.append(n_graded == 0)
        # Rounding must not hide a row; the judge looks at each one again.
        slack = 1e-9 * max(1.0, abs(thresholds.min_row_score))
        below.append(total <= (thresholds.min_row_score + slack) * n_graded)
    query = (
        select(Sample.row_index, *counts)
        .where(Sample.run_id == run_id, Sample.status != "skipped")
        .group_by(Sample.row_index)
        .having(or_(*below))
        .order_by(Sample.row_index)
    )
    return [
        RowResult(row, tried, won, broken, mean=reward / scored if scored else None)
        for row, tried, won, broken, reward, scored in connection.execute(query)
    ]
