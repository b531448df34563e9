"""Workspaces: finding the one a request is about, making one, listing one's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from osmosis.platform.db.models import Membership, Repository, User, Workspace
from osmosis.wire.errors import Conflict, Forbidden, NotFound, ValidationFailed, did_you_mean

IDENTITY = re.compile(r"[a-z0-9][a-z0-9-]{0,99}/[a-z0-9._-]{1,100}")
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
MAX_WORKSPACES = 1000
RESERVED_NAMES = ("account", "api", "device", "git", "login", "logout", "metrics", "static")
"""Where the server's own addresses begin; a workspace's pages begin with its name."""


@dataclass(frozen=True)
class Belonging:
    """A workspace as one person sees it."""

    workspace: Workspace
    role: str
    repository: Repository | None = None


async def by_identity(session: AsyncSession, user_id: str, identity: str) -> Belonging:
    """:func:`read_by_identity` on an async session."""
    return await session.run_sync(read_by_identity, user_id, identity)


async def by_name(session: AsyncSession, user_id: str, name: str) -> Belonging:
    """:func:`read_by_name` on an async session."""
    return await session.run_sync(read_by_name, user_id, name)


def read_by_identity(session: Session, user_id: str, identity: str) -> Belonging:
    """The workspace connected to ``owner/repo``; refuses a person who is no member."""
    wanted = normal_identity(identity, platform_code="GIT_SCOPE_INVALID")
    query = (
        select(Repository, Workspace, Membership)
        .join(Workspace, Repository.workspace_id == Workspace.id)
        .outerjoin(
            Membership,
            (Membership.workspace_id == Workspace.id) & (Membership.user_id == user_id),
        )
        .where(Repository.identity == wanted)
    )
    found = cast(
        tuple[Repository, Workspace, Membership | None] | None,
        session.execute(query).first(),
    )
    if found is None:
        raise NotFound(
            f"The repository '{wanted}' is not connected to a workspace here.",
            hint="Run `osmosis init` for a new workspace, or `osmosis workspace connect`.",
            platform_code="GIT_REPOSITORY_NOT_CONNECTED",
        )
    repository, workspace, membership = found
    if membership is None:
        raise Forbidden(
            f"Your account has no access to the workspace of '{wanted}'.",
            hint="Ask one of its owners to add you.",
            platform_code="GIT_REPOSITORY_ACCESS_DENIED",
        )
    return Belonging(workspace, membership.role, repository)


def read_by_name(session: Session, user_id: str, name: str) -> Belonging:
    """The workspace of this name or id; one that is not there and another's look the same."""
    query = (
        select(Workspace, Membership, Repository)
        .join(Membership, Membership.workspace_id == Workspace.id)
        .outerjoin(Repository, Repository.workspace_id == Workspace.id)
        .where(Membership.user_id == user_id)
        .where((Workspace.name == name.strip().lower()) | (Workspace.id == name))
    )
    found = session.execute(query).first()
    if found is None:
        own = select(Workspace.name).join(Membership, Membership.workspace_id == Workspace.id)
        names = session.execute(own.where(Membership.user_id == user_id).limit(MAX_WORKSPACES))
        raise Forbidden(
            f"There is no workspace '{name}', or your account has no access to it."
            f"{did_you_mean(name, names.scalars())}",
            hint="`osmosis workspace list` shows yours.",
            platform_code="WORKSPACE_SCOPE_HEADER_ACCESS_DENIED",
        )
    workspace, membership, repository = found
    return Belonging(workspace, membership.role, repository)


async def of_user(session: AsyncSession, user_id: str) -> Sequence[Belonging]:
    """The person's workspaces, by name."""
    query = (
        select(Workspace, Membership.role, Repository)
        .join(Membership, Membership.workspace_id == Workspace.id)
        .outerjoin(Repository, Repository.workspace_id == Workspace.id)
        .where(Membership.user_id == user_id)
        .order_by(Workspace.name)
        .limit(MAX_WORKSPACES)
    )
    return [Belonging(*row) for row in await session.execute(query)]


async def create(
    session: AsyncSession, user_id: str, name: str, repository: str | None = None
) -> tuple[Belonging, bool]:
    """A workspace with its hosted repository; the same again for its owner changes nothing.

    Returns it with whether it is new. The identity is ``<account>/<name>`` unless one is given.
    """
    wanted = normal_name(name)
    user = await session.get_one(User, user_id)
    identity = normal_identity(repository or f"{account_name(user)}/{wanted}")
    existing = (
        await session.execute(select(Workspace).where(Workspace.name == wanted))
    ).scalar_one_or_none()
    if existing is not None:
        return await _existing(session, user_id, existing, repository and identity), False
    taken = select(func.count()).where(Repository.identity == identity)
    if (await session.execute(taken)).scalar_one():
        raise Conflict(
            f"The repository '{identity}' is connected to another workspace.",
            hint="Choose another one with --repository OWNER/REPO.",
            platform_code="REPOSITORY_TAKEN",
            field="repository",
        )
    workspace = Workspace(name=wanted)
    session.add(workspace)
    await session.flush()
    connected = Repository(workspace_id=workspace.id, identity=identity, kind="hosted")
    session.add_all(
        (Membership(workspace_id=workspace.id, user_id=user_id, role="owner"), connected)
    )
    await session.flush()
    return Belonging(workspace, "owner", connected), True


async def _existing(
    session: AsyncSession, user_id: str, workspace: Workspace, identity: str | None
) -> Belonging:
    membership = await session.get(Membership, (workspace.id, user_id))
    if membership is None:
        raise Conflict(
            f"The name '{workspace.name}' is taken.",
            hint="Choose another name for the workspace.",
            platform_code="WORKSPACE_NAME_TAKEN",
            field="name",
        )
    query = select(Repository).where(Repository.workspace_id == workspace.id)
    repository = (await session.execute(query)).scalar_one_or_none()
    if identity and repository and repository.identity != identity:
        raise Conflict(
            f"The workspace '{workspace.name}' is connected to '{repository.identity}', "
            f"not to '{identity}'.",
            platform_code="WORKSPACE_CONNECTED",
            field="repository",
        )
    return Belonging(workspace, membership.role, repository)


def normal_identity(identity: str, *, platform_code: str | None = None) -> str:
    """``Owner/Repo`` as it is stored: lower case, without a trailing ``.git``."""
    wanted = identity.strip().lower().removesuffix(".git")
    if not IDENTITY.fullmatch(wanted) or wanted.split("/")[1] in (".", ".."):
        raise ValidationFailed(
            "A repository is named OWNER/REPO, for example 'ada/agents'.",
            platform_code=platform_code,
            field="repository",
        )
    return wanted


def normal_name(name: str) -> str:
    wanted = name.strip().lower()
    if not NAME.fullmatch(wanted):
        raise ValidationFailed(
            "A workspace's name has 1 to 64 of the characters a-z, 0-9 and '-', and begins and "
            "ends with a letter or digit.",
            field="name",
        )
    if wanted in RESERVED_NAMES:
        raise ValidationFailed(f"The name '{wanted}' is the server's own.", field="name")
    return wanted


def account_name(user: User) -> str:
    """The owner part of a person's hosted repositories."""
    name = re.sub(r"[^a-z0-9]+", "-", user.email.partition("@")[0].lower()).strip("-")
    return name or "user"
