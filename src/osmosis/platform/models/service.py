"""Named endpoints: model addresses of a workspace, so that ``model_path = "NAME"`` works."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Select, delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Endpoint, Secret, User
from osmosis.platform.secrets.service import check_name
from osmosis.wire.errors import NotFound, ValidationFailed, did_you_mean

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
RESERVED_NAMES = ("base", "lora", "replay", "scripted")
MAX_URL_CHARS = 2000
CALL_PATHS = ("/chat/completions", "/completions", "/embeddings", "/models")


@dataclass(frozen=True)
class ListedEndpoint:
    """An endpoint with what is looked up beside it."""

    endpoint: Endpoint
    creator: str | None
    key_stored: bool | None
    """Whether the secret that holds its key exists; None when it needs none."""


def listing(workspace_id: str) -> Select[Any]:
    return select(Endpoint).where(Endpoint.workspace_id == workspace_id).order_by(Endpoint.name)


async def all_endpoints(session: AsyncSession, workspace_id: str) -> Sequence[Endpoint]:
    """Every endpoint of a workspace, for a run to choose from."""
    return (await session.execute(listing(workspace_id))).scalars().all()


async def endpoint_by_name(session: AsyncSession, workspace_id: str, name: str) -> Endpoint:
    query = listing(workspace_id).where((Endpoint.name == name) | (Endpoint.id == name))
    found = (await session.execute(query)).scalars().first()
    if found is None:
        known = [endpoint.name for endpoint in await all_endpoints(session, workspace_id)]
        raise NotFound(
            f"There is no model endpoint '{name}'.{did_you_mean(name, known)}",
            hint="`osmosis model endpoint list` shows those of this workspace.",
        )
    return found


async def base_model(session: AsyncSession, workspace_id: str, name: str) -> Endpoint:
    """The endpoint of this name, or the first that serves the model of this path."""
    query = listing(workspace_id).where(Endpoint.model == name)
    served = (await session.execute(query)).scalars().first()
    try:
        return await endpoint_by_name(session, workspace_id, name)
    except NotFound:
        if served is None:
            raise
        return served


async def put_endpoint(
    session: AsyncSession,
    *,
    workspace_id: str,
    user_id: str,
    name: str,
    base_url: str,
    model: str | None,
    api_key_secret: str | None,
) -> Endpoint:
    """Create or replace the endpoint of this name."""
    _check_endpoint_name(name)
    if api_key_secret:
        check_name(api_key_secret)
    query = listing(workspace_id).where(Endpoint.name == name)
    endpoint = (await session.execute(query)).scalar_one_or_none()
    if endpoint is None:
        endpoint = Endpoint(workspace_id=workspace_id, name=name, creator_id=user_id)
        session.add(endpoint)
    endpoint.base_url = normal_base_url(base_url)
    endpoint.model = (model or "").strip() or None
    endpoint.api_key_secret = api_key_secret or None
    endpoint.updated_at = utc_now()
    await session.flush()
    return endpoint


async def delete_endpoint(session: AsyncSession, workspace_id: str, name: str) -> None:
    found = await endpoint_by_name(session, workspace_id, name)
    await session.execute(delete(Endpoint).where(Endpoint.id == found.id))


async def with_details(
    session: AsyncSession, endpoints: Sequence[Endpoint], user_id: str
) -> list[ListedEndpoint]:
    creators = {e.creator_id for e in endpoints if e.creator_id}
    people = (await session.execute(select(User).where(User.id.in_(creators)))).scalars()
    names = {user.id: user.name or user.email for user in people}
    workspaces = {e.workspace_id for e in endpoints}
    query = select(Secret.name).where(
        Secret.workspace_id.in_(workspaces), Secret.user_id.in_({"", user_id})
    )
    stored = set((await session.execute(query)).scalars())
    return [
        ListedEndpoint(
            endpoint,
            names.get(endpoint.creator_id or ""),
            endpoint.api_key_secret in stored if endpoint.api_key_secret else None,
        )
        for endpoint in endpoints
    ]


def normal_base_url(url: str) -> str:
    """The URL that ``/chat/completions`` is appended to; refuses what cannot be one."""
    text = url.strip().rstrip("/")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable or len(text) > MAX_URL_CHARS or any(c.isspace() for c in text):
        raise ValidationFailed(
            "The base URL must be a full http:// or https:// address, for example "
            "http://127.0.0.1:8000/v1.",
            field="base_url",
        )
    parts = urlsplit(text)
    if parts.username or parts.password:
        raise ValidationFailed(
            "The base URL must not hold credentials.",
            hint="Store the key with `osmosis secret set` and name it with --api-key-secret.",
            field="base_url",
        )
    if parts.query or parts.fragment:
        raise ValidationFailed("The base URL must not have a query or fragment.", field="base_url")
    for path in CALL_PATHS:
        if parts.path.endswith(path):
            raise ValidationFailed(
                f"The base URL must end before '{path}', which is added to it.",
                hint=f"Use {text.removesuffix(path)}",
                field="base_url",
            )
    return text


def _check_endpoint_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise ValidationFailed(
            "An endpoint's name has 1 to 63 letters, digits, '.', '_' and '-', and begins with a "
            "letter or digit.",
            field="name",
        )
    if name.lower() in RESERVED_NAMES:
        raise ValidationFailed(f"'{name}' has a meaning of its own; choose another.", field="name")
