"""``/api/cli/git`` and connecting a repository: calls of our own beside the vendor's contract."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from sqlalchemy import func, select

from osmosis.platform.addresses import public_url
from osmosis.platform.db.models import Branch, Repository, Rollout
from osmosis.platform.deps import CurrentPlatform, CurrentScope, CurrentUser, Scope, require_scope
from osmosis.platform.gitsync import service
from osmosis.platform.gitsync.credentials import MAX_CREDENTIAL_CHARACTERS
from osmosis.platform.gitsync.remotes import MAX_URL_CHARACTERS
from osmosis.platform.paging import PageQuery, fetch_page, iso, iso_or_none
from osmosis.platform.workspaces import service as workspaces

router = APIRouter(prefix="/api/cli")


class Connection(BaseModel):
    """``url`` None connects back to the hosted repository. The scope headers may stand instead of
    ``workspace``."""

    workspace: str | None = Field(default=None, min_length=1, max_length=64)
    url: str | None = Field(default=None, max_length=MAX_URL_CHARACTERS)
    token: str | None = Field(default=None, max_length=MAX_CREDENTIAL_CHARACTERS)
    deploy_key: str | None = Field(default=None, max_length=MAX_CREDENTIAL_CHARACTERS)


@router.post("/workspaces/connect")
async def connect(
    body: Connection, request: Request, platform: CurrentPlatform, user: CurrentUser
) -> dict[str, Any]:
    if body.workspace is None:
        scope = await require_scope(request)
    else:
        async with platform.db.read() as session:
            found = await workspaces.by_name(session, user.user_id, body.workspace)
        scope = Scope(found.workspace, user, found.role)
    scope.require_manager("connect a repository")
    workspace_id = scope.workspace.id
    if body.url is None:
        repository = await service.connect_hosted(platform, workspace_id)
    else:
        repository = await service.connect_remote(
            platform, workspace_id, body.url, token=body.token, deploy_key=body.deploy_key
        )
    return {
        "id": workspace_id,
        "name": scope.workspace.name,
        "role": scope.role,
        "connected_repo": {"repo_full_name": repository.identity},
        "repository": rendered(request, repository),
    }


@router.post("/git/sync")
async def sync(request: Request, platform: CurrentPlatform, scope: CurrentScope) -> dict[str, Any]:
    """Fetch and catalogue now, without a push."""
    async with platform.db.read() as session:
        repository = await service.repository_of(session, scope.workspace.id)
    seen = await service.sync(platform, repository)
    async with platform.db.read() as session:
        repository = await service.repository_of(session, scope.workspace.id)
    return {"repository": rendered(request, repository), "branch_count": seen.branches}


@router.get("/git/status")
async def status(
    request: Request, platform: CurrentPlatform, scope: CurrentScope, page: PageQuery
) -> dict[str, Any]:
    """The repository and a page of its branches, the default branch first."""
    async with platform.db.read() as session:
        repository = await service.repository_of(session, scope.workspace.id)
        query = (
            select(Branch)
            .where(Branch.repository_id == repository.id)
            .order_by(Branch.name != repository.default_branch, Branch.name)
        )
        branches, total = await fetch_page(session, query, page)
        counted = (
            select(Rollout.branch_id, func.count())
            .where(Rollout.branch_id.in_([branch.id for branch in branches]))
            .group_by(Rollout.branch_id)
        )
        rollouts = {row[0]: row[1] for row in await session.execute(counted)}
    items = [
        {
            "name": branch.name,
            "commit_sha": branch.commit_sha,
            "synced_at": iso(branch.synced_at),
            "rollouts": rollouts.get(branch.id, 0),
            "is_default": branch.name == repository.default_branch,
        }
        for branch in branches
    ]
    return page.body("branches", items, total, repository=rendered(request, repository))


def rendered(request: Request, repository: Repository) -> dict[str, Any]:
    """A repository on the wire; of a credential only the kind."""
    hosted = repository.kind == "hosted"
    return {
        "identity": repository.identity,
        "kind": repository.kind,
        "url": public_url(request, f"/git/{repository.identity}.git") if hosted else repository.url,
        "credential": repository.credential_kind,
        "default_branch": repository.default_branch,
        "last_synced_at": iso_or_none(repository.last_synced_at),
        "last_error": repository.last_error,
    }
