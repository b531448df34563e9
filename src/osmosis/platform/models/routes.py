"""Named endpoints (ours) and the model lists of the vendor's CLI (platform-api.md §3.9)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from osmosis.platform.db.models import Endpoint
from osmosis.platform.deps import CurrentPlatform, CurrentScope, Scope
from osmosis.platform.models import service
from osmosis.platform.models.service import ListedEndpoint
from osmosis.platform.paging import PageQuery, fetch_page, iso
from osmosis.platform.platform import Platform
from osmosis.wire.errors import NotFound

router = APIRouter(prefix="/api/cli")


class EndpointBody(BaseModel):
    name: str = Field(max_length=200)
    base_url: str = Field(max_length=service.MAX_URL_CHARS)
    model: str | None = Field(default=None, max_length=500)
    api_key_secret: str | None = Field(default=None, max_length=10_000)


class EndpointName(BaseModel):
    name: str = Field(max_length=200)


@router.get("/model-endpoints")
async def list_endpoints(
    page: PageQuery, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    return await _page_of(platform, scope, page, "model_endpoints", rendered)


@router.post("/model-endpoints")
async def put_endpoint(
    body: EndpointBody, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    scope.require_manager("change the workspace's model endpoints")
    async with platform.db.write() as session:
        endpoint = await service.put_endpoint(
            session,
            workspace_id=scope.workspace.id,
            user_id=scope.principal.user_id,
            name=body.name,
            base_url=body.base_url,
            model=body.model,
            api_key_secret=body.api_key_secret,
        )
    return rendered(await _detailed(platform, scope, endpoint))


@router.delete("/model-endpoints")
async def delete_endpoint_in_body(
    body: EndpointName, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    return await delete_endpoint(body.name, platform, scope)


@router.delete("/model-endpoints/{name}")
async def delete_endpoint(
    name: str, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    scope.require_manager("change the workspace's model endpoints")
    async with platform.db.write() as session:
        await service.delete_endpoint(session, scope.workspace.id, name)
    return {}


@router.get("/models/base")
async def list_base_models(
    page: PageQuery, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    return await _page_of(platform, scope, page, "models", rendered_as_base_model)


@router.get("/models/base/{name:path}")
async def base_model(name: str, platform: CurrentPlatform, scope: CurrentScope) -> dict[str, Any]:
    async with platform.db.read() as session:
        endpoint = await service.base_model(session, scope.workspace.id, name)
    return rendered_as_base_model(await _detailed(platform, scope, endpoint))


@router.get("/models/lora")
async def list_lora_models(page: PageQuery, _scope: CurrentScope) -> dict[str, Any]:
    # Without the deployment keys: their presence would switch the client's deployment view on.
    return page.body("models", [], 0)


@router.get("/models/{name}")
async def lora_model(name: str, _scope: CurrentScope) -> dict[str, Any]:
    raise NotFound(f"There is no LoRA model '{name}'.")


@router.post("/models/{name}/deploy")
@router.post("/models/{name}/undeploy")
async def deployment(name: str, _scope: CurrentScope) -> dict[str, Any]:
    raise NotFound(
        f"Deployments of models ('{name}') are not supported by this server.",
        platform_code="NOT_SUPPORTED",
    )


async def _page_of(
    platform: Platform, scope: Scope, page: PageQuery, key: str, render: Any
) -> dict[str, Any]:
    async with platform.db.read() as session:
        rows, total = await fetch_page(session, service.listing(scope.workspace.id), page)
        items = await service.with_details(session, rows, scope.principal.user_id)
    return page.body(key, [render(item) for item in items], total)


async def _detailed(platform: Platform, scope: Scope, endpoint: Endpoint) -> ListedEndpoint:
    async with platform.db.read() as session:
        return (await service.with_details(session, [endpoint], scope.principal.user_id))[0]


def rendered(item: ListedEndpoint) -> dict[str, Any]:
    """An endpoint on the wire."""
    endpoint = item.endpoint
    return {
        "id": endpoint.id,
        "name": endpoint.name,
        "base_url": endpoint.base_url,
        "model": endpoint.model,
        "api_key_secret": endpoint.api_key_secret,
        "api_key_stored": item.key_stored,
        "creator_name": item.creator,
        "created_at": iso(endpoint.created_at),
        "updated_at": iso(endpoint.updated_at),
    }


def rendered_as_base_model(item: ListedEndpoint) -> dict[str, Any]:
    """An endpoint in the shape of a base model, for the vendor's ``model list``."""
    endpoint = item.endpoint
    return {
        "id": endpoint.id,
        "model_name": endpoint.name,
        "base_model": endpoint.model,
        "namespace": "endpoint",
        "base_url": endpoint.base_url,
        "creator_name": item.creator,
        "created_at": iso(endpoint.created_at),
        "updated_at": iso(endpoint.updated_at),
    }
