"""Samples of a run, one by one (ours; the documented client only downloads them)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from osmosis.platform.deps import CurrentPlatform, CurrentScope
from osmosis.platform.evals.documents import sample_item
from osmosis.platform.evals.sample_page import SampleQuery, page_of_samples
from osmosis.platform.evals.samples import (
    DEFAULT_STEPS,
    MAX_STEPS,
    SampleKey,
    find_sample,
    view_sample,
)
from osmosis.platform.evals.service import find_run

router = APIRouter(prefix="/api/cli/eval-runs/{ref}/samples")

Index = Annotated[int, Path(ge=0, lt=2**31)]


@router.get("")
async def samples(
    ref: str, platform: CurrentPlatform, scope: CurrentScope, page: SampleQuery
) -> dict[str, Any]:
    async with platform.db.read() as session:
        run, _ = await find_run(session, scope.workspace.id, ref)
        found, cursor = await page_of_samples(session, run, page)
    return {"samples": [sample_item(sample) for sample in found], "next_cursor": cursor}


@router.get("/{row}/{run_index}")
async def sample(
    ref: str,
    *,
    row: Index,
    run_index: Index,
    platform: CurrentPlatform,
    scope: CurrentScope,
    start: Annotated[int, Query(alias="from", ge=0, lt=2**31)] = 0,
    count: Annotated[int, Query(ge=1, le=MAX_STEPS)] = DEFAULT_STEPS,
) -> dict[str, Any]:
    async with platform.db.read() as session:
        run, _ = await find_run(session, scope.workspace.id, ref)
        found = await find_sample(session, run, SampleKey(row, run_index))
    return (await view_sample(platform.settings, found, start=start, count=count)).body()
