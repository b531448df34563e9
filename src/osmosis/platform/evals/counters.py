"""The counters on the row of a run, counted from its samples."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, case, func, select, true

from osmosis.platform.db.models import Sample


def counted_again(
    connection: Connection, run_id: str, pass_threshold: float, *, only: Any = None
) -> dict[str, Any]:
    """The counters of a run, from its recorded samples, or ``only`` from those of a condition."""
    graded = (Sample.status != "skipped") & Sample.reward.is_not(None)

    def number(condition: Any) -> Any:
        return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)

    def total(value: Any) -> Any:
        return func.coalesce(func.sum(value), 0)

    record = Sample.record
    counted = connection.execute(
        select(
            func.count().label("sample_count"),
            number(Sample.status == "success").label("success_count"),
            number(Sample.status == "failed").label("failed_count"),
            number(Sample.status == "skipped").label("skipped_count"),
            number(graded).label("graded_count"),
            number(graded & (Sample.reward >= pass_threshold)).label("passed_count"),
            total(case((graded, Sample.reward), else_=0.0)).label("reward_sum"),
            total(Sample.tokens).label("tokens_sum"),
            total(record["judge_tokens"].as_integer()).label("judge_tokens_sum"),
            (total(Sample.cost_usd) + total(record["judge_cost_usd"].as_float())).label("cost_sum"),
            number(record["cost_unknown"].as_boolean()).label("cost_unknown_count"),
            total(record["saved_calls"].as_integer()).label("saved_calls_count"),
            total(record["saved_usd"].as_float()).label("saved_sum"),
            number(record["saved_unknown"].as_boolean()).label("saved_unknown_count"),
            number(record["kept_calls"].as_boolean()).label("kept_count"),
        ).where(Sample.run_id == run_id, true() if only is None else only)
    )
    return dict(counted.mappings().one())
