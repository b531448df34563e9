"""Page sessions: a signed cookie, got by a one-time link that the server or the CLI prints."""

from __future__ import annotations

import secrets
from datetime import timedelta

from fastapi import Request
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.responses import Response

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import LoginLink, User
from osmosis.platform.errors import SignInRequired
from osmosis.platform.security.tokens import Principal, digest, principal_from

SESSION_COOKIE = "osmosis_session"
PURPOSE = "page-session"


async def create_login_code(session: AsyncSession, user_id: str, *, lifetime_s: int) -> str:
    """A code that opens one page session, once, for ``/login?code=...``."""
    code = secrets.token_urlsafe(24)
    expires_at = utc_now() + timedelta(seconds=lifetime_s)
    session.add(LoginLink(user_id=user_id, digest=digest(code), expires_at=expires_at))
    await session.flush()
    return code


async def redeem_login_code(session: AsyncSession, code: str) -> User | None:
    """The person of a fresh code, which is used up by this; None when it is not good."""
    now = utc_now()
    used = await session.execute(
        update(LoginLink)
        .where(
            LoginLink.digest == digest(code),
            LoginLink.used_at.is_(None),
            LoginLink.expires_at > now,
        )
        .values(used_at=now)
        .returning(LoginLink.user_id)
    )
    user_id = used.scalar_one_or_none()
    return await session.get(User, user_id) if user_id else None


def sign_in(request: Request, response: Response, user: User) -> None:
    """Give the browser a session; it ends when the person's password changes."""
    platform = request.app.state.platform
    response.set_cookie(
        SESSION_COOKIE,
        platform.signer.sign(PURPOSE, [user.id, _password_mark(user)]),
        max_age=platform.settings.page_session_s,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
        path="/",
    )


def sign_out(response: Response) -> None:
    response.delete_cookie(SESSION_COOKIE, path="/")


async def page_user(request: Request) -> Principal | None:
    """The person of the session cookie, or None."""
    platform = request.app.state.platform
    cookie = request.cookies.get(SESSION_COOKIE)
    if not cookie:
        return None
    signed = platform.signer.read(PURPOSE, cookie, max_age_s=platform.settings.page_session_s)
    if signed is None:
        return None
    user_id, password_mark = signed
    async with platform.db.read() as session:
        user = await session.get(User, user_id)
    if user is None or password_mark != _password_mark(user):
        return None
    return principal_from(user)


def _password_mark(user: User) -> str:
    return digest(user.password_hash or "")[:16]


async def require_page_user(request: Request) -> Principal:
    """The signed-in person of a page; browsers without a session are led to ``/login``."""
    user = await page_user(request)
    if user is None:
        raise SignInRequired(
            "Sign in to see this page.", hint="Run `osmosis server link` for a fresh link."
        )
    return user
