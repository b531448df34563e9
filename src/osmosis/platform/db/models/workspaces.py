"""Workspaces, who may use them, the repository each is connected to, and what it holds."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from osmosis.platform.db.base import Base, Identified, Timestamped, UtcDateTime, utc_now


class Workspace(Identified, Timestamped, Base):
    __tablename__ = "workspaces"

    name: Mapped[str] = mapped_column(unique=True)


class Membership(Timestamped, Base):
    """``role``: owner, admin or member."""

    __tablename__ = "memberships"

    workspace_id: Mapped[str] = mapped_column(
        ForeignKey("workspaces.id", ondelete="CASCADE"), primary_key=True
    )
    user_id: Mapped[str] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True
    )
    role: Mapped[str] = mapped_column(default="owner")


class Repository(Identified, Timestamped, Base):
    """The git repository of a workspace. Its bare copy is ``<data>/git/<id>.git``.

    ``identity`` is ``owner/repo`` in lower case, as in ``X-Osmosis-Git``. ``kind`` is ``hosted``
    (pushed to us) or ``remote`` (fetched from ``url`` at submit). ``credential_cipher`` is the
    encrypted token or deploy key of a remote one.
    """

    __tablename__ = "repositories"

    workspace_id: Mapped[str] = mapped_column(
        ForeignKey("workspaces.id", ondelete="CASCADE"), unique=True
    )
    identity: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str] = mapped_column(default="hosted")
    url: Mapped[str | None]
    credential_kind: Mapped[str | None]
    credential_cipher: Mapped[bytes | None]
    default_branch: Mapped[str] = mapped_column(default="main")
    last_synced_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_error: Mapped[str | None]


class Branch(Identified, Timestamped, Base):
    __tablename__ = "branches"
    __table_args__ = (UniqueConstraint("repository_id", "name"),)

    repository_id: Mapped[str] = mapped_column(ForeignKey("repositories.id", ondelete="CASCADE"))
    name: Mapped[str]
    commit_sha: Mapped[str]
    synced_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)


class Rollout(Identified, Timestamped, Base):
    """A directory under ``rollouts/`` on one branch."""

    __tablename__ = "rollouts"
    __table_args__ = (UniqueConstraint("branch_id", "name"),)

    workspace_id: Mapped[str] = mapped_column(
        ForeignKey("workspaces.id", ondelete="CASCADE"), index=True
    )
    branch_id: Mapped[str] = mapped_column(ForeignKey("branches.id", ondelete="CASCADE"))
    name: Mapped[str]
    description: Mapped[str | None]
    commit_sha: Mapped[str]


class Endpoint(Identified, Timestamped, Base):
    """A named model address. ``api_key_secret`` names a secret; the value is never stored here."""

    __tablename__ = "endpoints"
    __table_args__ = (UniqueConstraint("workspace_id", "name"),)

    workspace_id: Mapped[str] = mapped_column(ForeignKey("workspaces.id", ondelete="CASCADE"))
    name: Mapped[str]
    base_url: Mapped[str]
    model: Mapped[str | None]
    api_key_secret: Mapped[str | None]
    creator_id: Mapped[str | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))


class Secret(Identified, Timestamped, Base):
    """An encrypted value. ``user_id`` is empty for the workspace scope, else the owner."""

    __tablename__ = "secrets"
    __table_args__ = (UniqueConstraint("workspace_id", "user_id", "name"),)

    workspace_id: Mapped[str] = mapped_column(ForeignKey("workspaces.id", ondelete="CASCADE"))
    user_id: Mapped[str] = mapped_column(default="")
    name: Mapped[str]
    cipher: Mapped[bytes]
    creator_id: Mapped[str | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    updater_id: Mapped[str | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
