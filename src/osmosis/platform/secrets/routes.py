"""``/api/cli/environment-secrets`` (platform-api.md §3.2)."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, SecretStr

from osmosis.platform.deps import CurrentPlatform, CurrentScope, Scope
from osmosis.platform.paging import PageQuery, fetch_page, iso
from osmosis.platform.secrets import service
from osmosis.platform.secrets.service import ListedSecret, WireScope

router = APIRouter(prefix="/api/cli/environment-secrets")


class SecretName(BaseModel):
    name: str = Field(max_length=10_000)
    scope: WireScope


class SecretToSet(SecretName):
    value: SecretStr


@router.get("")
async def list_secrets(
    page: PageQuery,
    platform: CurrentPlatform,
    scoped: CurrentScope,
    scope: Literal["all", "workspace", "user"] = "all",
) -> dict[str, Any]:
    query = service.listing(scoped.workspace.id, scoped.principal.user_id, scope)
    async with platform.db.read() as session:
        rows, total = await fetch_page(session, query, page)
        items = await service.with_names(session, rows)
    return page.body("environment_secrets", [rendered(item) for item in items], total)


@router.post("")
async def set_secret(
    body: SecretToSet, platform: CurrentPlatform, scoped: CurrentScope
) -> dict[str, Any]:
    _require_writer(scoped, body.scope)
    async with platform.db.write() as session:
        item = await service.set_secret(
            session,
            platform.vault,
            workspace_id=scoped.workspace.id,
            user_id=scoped.principal.user_id,
            name=body.name,
            value=body.value.get_secret_value(),
            scope=body.scope,
        )
    return rendered(item)


@router.delete("")
async def delete_secret(
    body: SecretName, platform: CurrentPlatform, scoped: CurrentScope
) -> dict[str, Any]:
    _require_writer(scoped, body.scope)
    async with platform.db.write() as session:
        await service.delete_secret(
            session,
            workspace_id=scoped.workspace.id,
            user_id=scoped.principal.user_id,
            name=body.name,
            scope=body.scope,
        )
    return {}


def rendered(item: ListedSecret) -> dict[str, Any]:
    """A secret on the wire: everything but its value."""
    return {
        "id": item.secret.id,
        "name": item.secret.name,
        "scope": item.scope,
        "created_at": iso(item.secret.created_at),
        "updated_at": iso(item.secret.updated_at),
        "creator_name": item.creator,
        "updater_name": item.updater,
    }


def _require_writer(scoped: Scope, scope: WireScope) -> None:
    if scope == "workspace":
        scoped.require_manager("change the workspace's secrets")
