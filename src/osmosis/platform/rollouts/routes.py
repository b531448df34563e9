"""``GET /api/cli/rollouts`` (platform-api.md §3.8): the rollouts of one branch."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from osmosis.platform.deps import CurrentPlatform, CurrentScope
from osmosis.platform.paging import PageQuery, iso
from osmosis.platform.rollouts import service

router = APIRouter(prefix="/api/cli")


@router.get("/rollouts")
async def list_rollouts(
    platform: CurrentPlatform,
    scope: CurrentScope,
    page: PageQuery,
    branch: Annotated[str | None, Query(max_length=255)] = None,
) -> dict[str, Any]:
    async with platform.db.read() as session:
        listed = await service.rollouts_of_branch(session, scope.workspace.id, branch, page)
    items = [
        {
            "id": rollout.id,
            "name": rollout.name,
            "description": rollout.description,
            "is_active": True,
            "last_synced_commit_sha": rollout.commit_sha,
            "last_synced_at": iso(listed.branch.synced_at),
            "repo_full_name": listed.repository.identity,
            "branch": listed.branch.name,
            "created_at": iso(rollout.created_at),
        }
        for rollout in listed.rollouts
        if listed.branch is not None
    ]
    return page.body("rollouts", items, listed.total)
