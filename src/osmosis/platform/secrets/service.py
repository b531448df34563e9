"""Stored secrets: set, listed by name, deleted, and resolved for a run. Values never leave here
but through :meth:`ResolvedSecret.reveal`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Select, delete, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Secret, User
from osmosis.platform.security.vault import Vault
from osmosis.wire.errors import NotFound, ValidationFailed

NAME = re.compile(r"[A-Z][A-Z0-9_]{0,254}")
MAX_VALUE_BYTES = 65_536

WireScope = Literal["workspace", "user"]
ScopeLabel = Literal["workspace", "user", "user_override"]


@dataclass(frozen=True)
class ResolvedSecret:
    """A secret as one run sees it. ``scope`` is the label that the run shows."""

    name: str
    scope: ScopeLabel
    cipher: bytes = field(repr=False)
    context: str = field(repr=False)

    def reveal(self, vault: Vault) -> str:
        return vault.decrypt(self.cipher, self.context).decode()


@dataclass(frozen=True)
class ListedSecret:
    """What may be shown of a secret."""

    secret: Secret
    creator: str | None
    updater: str | None

    @property
    def scope(self) -> WireScope:
        return "user" if self.secret.user_id else "workspace"


async def resolve_secrets(
    session: AsyncSession, workspace_id: str, user_id: str, names: Iterable[str]
) -> dict[str, ResolvedSecret]:
    """The stored secrets among ``names``. A personal one overrides the workspace's."""
    wanted = list(dict.fromkeys(names))
    query = select(Secret).where(
        Secret.workspace_id == workspace_id,
        Secret.name.in_(wanted),
        Secret.user_id.in_({"", user_id}),
    )
    personal: dict[str, Secret] = {}
    shared: dict[str, Secret] = {}
    for secret in (await session.execute(query)).scalars():
        (personal if secret.user_id else shared)[secret.name] = secret
    resolved: dict[str, ResolvedSecret] = {}
    for name in wanted:
        secret = personal.get(name) or shared.get(name)
        if secret is None:
            continue
        label: ScopeLabel = "workspace"
        if secret.user_id:
            label = "user_override" if name in shared else "user"
        resolved[name] = ResolvedSecret(name, label, secret.cipher, _context_of(secret))
    return resolved


def missing(resolved: Mapping[str, object], names: Iterable[str]) -> list[str]:
    """The names that were not resolved, in order."""
    return [name for name in dict.fromkeys(names) if name not in resolved]


def secrets_not_found(names: Sequence[str]) -> NotFound:
    """The error for missing secrets, in the words that the vendor's CLI looks for."""
    return NotFound(
        f"Secret(s) not found: {', '.join(names)}",
        hint="Store each with `osmosis secret set NAME`.",
        platform_code="SECRETS_NOT_FOUND",
        details={"missing": list(names)},
    )


async def set_secret(
    session: AsyncSession,
    vault: Vault,
    *,
    workspace_id: str,
    user_id: str,
    name: str,
    value: str,
    scope: WireScope,
) -> ListedSecret:
    """Create or replace a secret."""
    _check(name, value)
    owner = user_id if scope == "user" else ""
    query = select(Secret).where(
        Secret.workspace_id == workspace_id, Secret.user_id == owner, Secret.name == name
    )
    secret = (await session.execute(query)).scalar_one_or_none()
    if secret is None:
        secret = Secret(
            workspace_id=workspace_id, user_id=owner, name=name, creator_id=user_id, cipher=b""
        )
        session.add(secret)
    secret.cipher = vault.encrypt(value.encode(), _context(workspace_id, owner, name))
    secret.updater_id = user_id
    secret.updated_at = utc_now()
    await session.flush()
    return (await listed(session, _listing(workspace_id, user_id).where(Secret.id == secret.id)))[0]


async def delete_secret(
    session: AsyncSession, *, workspace_id: str, user_id: str, name: str, scope: WireScope
) -> None:
    owner = user_id if scope == "user" else ""
    gone = await session.execute(
        delete(Secret)
        .where(Secret.workspace_id == workspace_id, Secret.user_id == owner, Secret.name == name)
        .returning(Secret.id)
    )
    if gone.scalar_one_or_none() is None:
        shown = "personal" if scope == "user" else "workspace"
        raise NotFound(
            f"There is no {shown} secret of this name.",
            hint="`osmosis secret list` shows the names.",
        )


def listing(
    workspace_id: str, user_id: str, scope: Literal["all", "workspace", "user"]
) -> Select[Any]:
    """The secrets that a person may see by name, for ``fetch_page``."""
    query = _listing(workspace_id, user_id).order_by(Secret.name, Secret.user_id)
    if scope == "workspace":
        return query.where(Secret.user_id == "")
    if scope == "user":
        return query.where(Secret.user_id != "")
    return query


async def listed(session: AsyncSession, query: Select[Any]) -> list[ListedSecret]:
    """The rows of a listing with the names of who made and last changed them."""
    secrets = (await session.execute(query)).scalars().all()
    return await with_names(session, secrets)


async def with_names(session: AsyncSession, secrets: Sequence[Secret]) -> list[ListedSecret]:
    people = {s.creator_id for s in secrets} | {s.updater_id for s in secrets}
    query = select(User).where(User.id.in_(people - {None}))
    names = {u.id: u.name or u.email for u in (await session.execute(query)).scalars()}
    return [
        ListedSecret(s, names.get(s.creator_id or ""), names.get(s.updater_id or ""))
        for s in secrets
    ]


def _listing(workspace_id: str, user_id: str) -> Select[Any]:
    return select(Secret).where(
        Secret.workspace_id == workspace_id,
        or_(Secret.user_id == "", Secret.user_id == user_id),
    )


def check_name(name: str) -> None:
    """Refuse a name that cannot be an environment variable of ours. The text is not repeated:
    people paste values into the wrong field."""
    if not NAME.fullmatch(name):
        raise ValidationFailed(
            "A secret's name has 1 to 255 of the characters A-Z, 0-9 and '_', and begins with a "
            "letter, for example OPENAI_API_KEY.",
            field="name",
        )


def _check(name: str, value: str) -> None:
    check_name(name)
    if not value:
        raise ValidationFailed("A secret's value must not be empty.", field="value")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValidationFailed("A secret's value must be valid Unicode.", field="value") from None
    if size > MAX_VALUE_BYTES or "\0" in value:
        raise ValidationFailed(
            f"A secret's value has at most {MAX_VALUE_BYTES} bytes and no NUL character.",
            field="value",
        )


def _context_of(secret: Secret) -> str:
    return _context(secret.workspace_id, secret.user_id, secret.name)


def _context(workspace_id: str, user_id: str, name: str) -> str:
    return f"secret:{workspace_id}:{user_id}:{name}"
