"""Lists of the vendor's API that are empty here, so that a client shows "none", not an error.

Everything else below the same paths is answered by ``errors.not_offered``.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from osmosis.platform.deps import CurrentScope
from osmosis.platform.paging import PageQuery

router = APIRouter(prefix="/api/cli")


@router.get("/training-runs")
async def training_runs(page: PageQuery, _scope: CurrentScope) -> dict[str, Any]:
    return page.body("training_runs", [], 0)


@router.get("/benchmarks")
async def benchmarks(page: PageQuery, _scope: CurrentScope) -> dict[str, Any]:
    return page.body("benchmarks", [], 0)


@router.get("/benchmark-runs")
async def benchmark_runs(page: PageQuery, _scope: CurrentScope) -> dict[str, Any]:
    return page.body("benchmark_runs", [], 0)
