"""Bearer tokens: made here, shown once, kept only as a SHA-256."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Token, User
from osmosis.wire.errors import AuthRequired

PREFIX = "osm_"


@dataclass(frozen=True)
class Principal:
    """Who makes a request."""

    user_id: str
    email: str
    name: str | None
    is_admin: bool
    token_id: str | None = None
    expires_at: datetime | None = None


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest(value: str) -> str:
    """What is stored of a token or a one-time code."""
    return hashlib.sha256(value.encode()).hexdigest()


async def issue_token(
    session: AsyncSession,
    *,
    kind: str,
    name: str,
    user_id: str | None,
    expires_at: datetime | None = None,
    value: str | None = None,
) -> tuple[Token, str]:
    """Store a new token and return it with its value, which cannot be read again later."""
    value = value or new_token()
    token = Token(
        user_id=user_id, kind=kind, name=name, digest=digest(value), expires_at=expires_at
    )
    session.add(token)
    await session.flush()
    return token, value


def bearer(authorization: str | None) -> str:
    """The token of an ``Authorization`` header, or the error that says what is missing."""
    if not authorization:
        raise AuthRequired(
            "This call needs a token.",
            hint="Sign in with `osmosis auth login`.",
            platform_code="AUTH_HEADER_MISSING",
        )
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "bearer" or not value.strip():
        raise AuthRequired(
            "The Authorization header must read `Bearer <token>`.", platform_code="TOKEN_MISSING"
        )
    return value.strip()


async def find_token(session: AsyncSession, value: str) -> tuple[Token, User | None]:
    """:func:`read_token` on an async session."""
    return await session.run_sync(read_token, value)


async def principal_of(session: AsyncSession, value: str) -> Principal:
    """:func:`read_principal` on an async session."""
    return await session.run_sync(read_principal, value)


def read_token(session: Session, value: str) -> tuple[Token, User | None]:
    """The live token with this value and its user; raises :class:`AuthRequired` otherwise."""
    query = (
        select(Token, User)
        .outerjoin(User, Token.user_id == User.id)
        .where(Token.digest == digest(value))
    )
    found = session.execute(query).first()
    if found is None:
        raise AuthRequired(
            "The token is not known to this server.",
            hint="Sign in again with `osmosis auth login`.",
            platform_code="TOKEN_INVALID",
        )
    token, user = found
    if token.revoked_at is not None:
        raise AuthRequired("The token was revoked.", platform_code="TOKEN_REVOKED")
    if token.expires_at is not None and token.expires_at <= utc_now():
        raise AuthRequired("The token has expired.", platform_code="TOKEN_EXPIRED")
    return token, user


def read_principal(session: Session, value: str) -> Principal:
    """The person whom a token speaks for."""
    token, user = read_token(session, value)
    if user is None:
        raise AuthRequired(
            "This token belongs to a worker, not to a person.", platform_code="TOKEN_INVALID"
        )
    return principal_from(user, token)


def principal_from(user: User, token: Token | None = None) -> Principal:
    return Principal(
        user_id=user.id,
        email=user.email,
        name=user.name,
        is_admin=user.is_admin,
        token_id=token.id if token else None,
        expires_at=token.expires_at if token else None,
    )
