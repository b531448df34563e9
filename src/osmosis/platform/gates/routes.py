"""The verdict of a gate on a run (ours; the documented API has none)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from osmosis.metrics.gate import Thresholds
from osmosis.platform.comparisons.routes import CurrentComparisons
from osmosis.platform.deps import CurrentPlatform, CurrentScope
from osmosis.platform.evals.state import CurrentRuns
from osmosis.platform.gates.service import judge_run

router = APIRouter(prefix="/api/cli/eval-runs/{ref}/verdict")

Share = Annotated[float | None, Query(ge=0, le=1)]
Score = Annotated[float | None, Query(allow_inf_nan=False)]


async def thresholds_query(
    *,
    min_pass_rate: Share = None,
    min_score: Score = None,
    min_row_pass_rate: Share = None,
    min_row_score: Score = None,
    max_regression_vs: str | None = None,
    max_regression: Annotated[float, Query(ge=0, le=1)] = 0.0,
    only_significant: bool = False,
) -> Thresholds:
    return Thresholds(
        min_pass_rate=min_pass_rate,
        min_score=min_score,
        min_row_pass_rate=min_row_pass_rate,
        min_row_score=min_row_score,
        baseline=max_regression_vs,
        max_regression=max_regression,
        only_significant=only_significant,
    )


@router.get("")
async def verdict(
    ref: str,
    *,
    platform: CurrentPlatform,
    scope: CurrentScope,
    runs: CurrentRuns,
    comparisons: CurrentComparisons,
    thresholds: Annotated[Thresholds, Depends(thresholds_query)],
) -> dict[str, Any]:
    found = await judge_run(
        platform, runs.numbers, comparisons, scope.workspace.id, ref=ref, thresholds=thresholds
    )
    return found.body()
