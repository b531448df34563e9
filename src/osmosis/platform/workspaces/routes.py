"""``/api/cli/workspaces`` and the quickstart of the vendor's CLI (platform-api.md §3.10)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from osmosis.platform.addresses import public_url
from osmosis.platform.deps import CurrentPlatform, CurrentUser
from osmosis.platform.workspaces import service
from osmosis.platform.workspaces.service import Belonging

router = APIRouter(prefix="/api/cli")


class NewWorkspace(BaseModel):
    name: str = Field(min_length=1, max_length=64)
    repository: str | None = Field(default=None, max_length=205)


class QuickstartIntent(BaseModel):
    organizationId: str = Field(max_length=64)
    intent: Literal["train", "eval", "benchmark", "explore"]


@router.get("/workspaces")
async def list_workspaces(
    request: Request, platform: CurrentPlatform, user: CurrentUser
) -> dict[str, Any]:
    async with platform.db.read() as session:
        found = await service.of_user(session, user.user_id)
    return {"workspaces": [rendered(request, item) for item in found]}


@router.post("/workspaces")
async def create_workspace(
    body: NewWorkspace,
    request: Request,
    response: Response,
    platform: CurrentPlatform,
    user: CurrentUser,
) -> dict[str, Any]:
    async with platform.db.write() as session:
        made, new = await service.create(session, user.user_id, body.name, body.repository)
    response.status_code = 201 if new else 200
    return rendered(request, made)


@router.get("/quickstart")
async def quickstart_state(
    platform: CurrentPlatform,
    user: CurrentUser,
    organization_id: Annotated[str, Query(alias="organizationId", max_length=64)],
) -> dict[str, Any]:
    async with platform.db.read() as session:
        found = await service.by_name(session, user.user_id, organization_id)
    identity = found.repository.identity if found.repository else None
    return {
        "repo": {"connected": identity is not None, "full_name": identity},
        "billing_ready": True,
        "completed": identity is not None,
    }


@router.post("/quickstart")
async def record_quickstart(
    body: QuickstartIntent, platform: CurrentPlatform, user: CurrentUser
) -> dict[str, Any]:
    async with platform.db.read() as session:
        await service.by_name(session, user.user_id, body.organizationId)
    return {}


def rendered(request: Request, item: Belonging) -> dict[str, Any]:
    """A workspace on the wire. ``git_url`` is where its hosted repository is pushed to."""
    repository = item.repository
    git_url = None
    if repository is not None and repository.kind == "hosted":
        git_url = public_url(request, f"/git/{repository.identity}.git")
    return {
        "id": item.workspace.id,
        "name": item.workspace.name,
        "role": item.role,
        "connected_repo": {"repo_full_name": repository.identity} if repository else None,
        "repository_kind": repository.kind if repository else None,
        "git_url": git_url,
        "has_billing_setup": True,
    }
