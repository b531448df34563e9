"""People, their tokens and sessions, and pending device logins."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from osmosis.platform.db.base import Base, Identified, Timestamped, UtcDateTime


class User(Identified, Timestamped, Base):
    __tablename__ = "users"

    email: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str | None]
    password_hash: Mapped[str | None]
    is_admin: Mapped[bool] = mapped_column(default=False)


class Token(Identified, Timestamped, Base):
    """A bearer token; only its SHA-256 is stored. ``kind``: personal, device, local, worker."""

    __tablename__ = "tokens"

    user_id: Mapped[str | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    kind: Mapped[str]
    name: Mapped[str]
    digest: Mapped[str] = mapped_column(unique=True)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class LoginLink(Identified, Timestamped, Base):
    """A one-time link to a page session; only the SHA-256 of its code is stored."""

    __tablename__ = "login_links"

    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    digest: Mapped[str] = mapped_column(unique=True)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class DeviceLogin(Identified, Timestamped, Base):
    """A device-code login (RFC 8628) that waits for approval on a page."""

    __tablename__ = "device_logins"

    device_digest: Mapped[str] = mapped_column(unique=True)
    user_code: Mapped[str] = mapped_column(unique=True)
    device_name: Mapped[str]
    status: Mapped[str] = mapped_column(default="pending")
    user_id: Mapped[str | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_poll_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
