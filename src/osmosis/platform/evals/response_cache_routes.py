"""``/api/cli/response-cache``: the kept model answers of a workspace (ours)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from osmosis.platform.deps import CurrentScope
from osmosis.platform.evals.state import CurrentRuns

router = APIRouter(prefix="/api/cli/response-cache")


@router.delete("")
async def clear(scope: CurrentScope, runs: CurrentRuns) -> dict[str, Any]:
    """Forget every kept answer of the workspace. Runs that are under way go on, and ask models."""
    scope.require_manager("empty the workspace's response cache")
    held = await runs.responses.clear(scope.workspace.id)
    return {"responses": held.responses, "bytes": held.bytes}
