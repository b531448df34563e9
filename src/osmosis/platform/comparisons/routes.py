"""``POST /api/cli/eval-runs/compare``: runs against each other (an addition of ours)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from osmosis.metrics.documents import estimate_document
from osmosis.metrics.intervals import CONFIDENCE
from osmosis.platform.addresses import public_url
from osmosis.platform.comparisons.report import report
from osmosis.platform.comparisons.service import MAX_RUNS, MAX_SHOWN, Comparisons
from osmosis.platform.deps import CurrentScope
from osmosis.platform.platform import Platform

router = APIRouter()


class CompareRequest(BaseModel):
    """``runs``: names or ids, the baseline first. ``rows``: how many changed rows to list."""

    model_config = ConfigDict(extra="forbid")

    runs: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(max_length=MAX_RUNS)
    cluster_by: str | None = Field(default=None, min_length=1, max_length=200)
    rows: int = Field(default=20, ge=0, le=MAX_SHOWN)


def setup(app: FastAPI, platform: Platform) -> None:
    app.state.comparisons = Comparisons(platform, app.state.runs.numbers)


async def get_comparisons(request: Request) -> Comparisons:
    return request.app.state.comparisons


CurrentComparisons = Annotated[Comparisons, Depends(get_comparisons)]


@router.post("/api/cli/eval-runs/compare")
async def compare(
    body: CompareRequest, request: Request, scope: CurrentScope, comparisons: CurrentComparisons
) -> dict[str, Any]:
    found = await comparisons.compare(
        scope.workspace.id, body.runs, cluster_by=body.cluster_by, shown=body.rows
    )

    def url(path: str) -> str:
        return public_url(request, f"/{scope.workspace.name}/runs/{path}")

    return report(
        found.baseline, found.candidates, found.summaries, cluster_by=found.cluster_by, url=url
    )


@router.get("/api/cli/eval-runs/{ref}/intervals")
async def intervals(
    ref: str,
    scope: CurrentScope,
    comparisons: CurrentComparisons,
    cluster_by: Annotated[str, Query(min_length=1, max_length=200)],
) -> dict[str, Any]:
    found = await comparisons.intervals(scope.workspace.id, ref, cluster_by)
    shown = {name: estimate_document(estimate) for name, estimate in found.items()}
    return {"cluster_by": cluster_by, "confidence": CONFIDENCE, "intervals": shown}
