"""Accounts: the first one, its local token, device logins and one-time links."""

from __future__ import annotations

import getpass
import os
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import DeviceLogin, Token, User
from osmosis.platform.db.session import Database
from osmosis.platform.security.passwords import hash_password
from osmosis.platform.security.tokens import (
    Principal,
    digest,
    find_token,
    issue_token,
    new_token,
)
from osmosis.platform.security.vault import write_private
from osmosis.platform.settings import Settings
from osmosis.wire.errors import AuthRequired, NotFound, RateLimited, ValidationFailed

USER_CODE_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
MAX_PENDING_LOGINS = 1000
FINISHED_LOGIN_KEPT_S = 3600
DEVICE_NAME_CHARS = 100


async def ensure_local_account(db: Database, settings: Settings) -> None:
    """See that there is a person, and a token of theirs and a worker's beside the server.

    The first account is the operating-system user that runs the server. The files are readable
    by that user alone, so a CLI beside the server needs no login.
    """
    async with db.write() as session:
        user = await first_user(session)
        for path, kind, user_id in (
            (settings.local_token_file, "local", user.id),
            (settings.worker_token_file, "worker", None),
        ):
            if path.exists():
                try:
                    await find_token(session, path.read_text().strip())
                    continue
                except AuthRequired:
                    path.unlink()
            value = new_token()
            await issue_token(session, kind=kind, name=kind, user_id=user_id, value=value)
            write_private(path, value + "\n")


async def first_user(session: AsyncSession) -> User:
    """The oldest account; made from the operating-system user when there is none."""
    query = select(User).order_by(User.created_at, User.id).limit(1)
    user = (await session.execute(query)).scalar_one_or_none()
    if user is None:
        name = system_user_name()
        user = User(email=f"{name}@localhost", name=name, is_admin=True)
        session.add(user)
        await session.flush()
    return user


def system_user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user{os.getuid()}"


@dataclass(frozen=True)
class DeviceCodes:
    """What a device login begins with."""

    device_code: str
    user_code: str


async def begin_device_login(
    session: AsyncSession, device_name: str, *, lifetime_s: int
) -> DeviceCodes:
    """Open a login that waits for approval on the page ``/device``."""
    now = utc_now()
    outdated = now - timedelta(seconds=FINISHED_LOGIN_KEPT_S)
    await session.execute(delete(DeviceLogin).where(DeviceLogin.expires_at < outdated))
    waiting = select(DeviceLogin.id).where(DeviceLogin.expires_at > now).limit(MAX_PENDING_LOGINS)
    if len((await session.execute(waiting)).all()) >= MAX_PENDING_LOGINS:
        raise RateLimited("Too many logins wait for approval.", hint="Try again in a while.")
    codes = DeviceCodes(secrets.token_urlsafe(32), new_user_code())
    session.add(
        DeviceLogin(
            device_digest=digest(codes.device_code),
            user_code=codes.user_code,
            device_name=printable(device_name) or "unknown device",
            expires_at=now + timedelta(seconds=lifetime_s),
        )
    )
    await session.flush()
    return codes


def new_user_code() -> str:
    letters = [secrets.choice(USER_CODE_ALPHABET) for _ in range(8)]
    return "".join(letters[:4]) + "-" + "".join(letters[4:])


def printable(text: str) -> str:
    """A name as it may stand on a page and in a log: one line, bounded."""
    return "".join(c for c in text if c.isprintable()).strip()[:DEVICE_NAME_CHARS]


@dataclass(frozen=True)
class DevicePoll:
    """What one poll of a device login found: a token, or the reason why not."""

    error: Literal["authorization_pending", "slow_down", "expired_token", "access_denied"] | None
    token: Token | None = None
    value: str = ""
    user: User | None = None


async def poll_device_login(
    session: AsyncSession, device_code: str, *, poll_s: int, token_lifetime_days: int
) -> DevicePoll:
    """The token of an approved login, once; else the RFC 8628 error of the moment."""
    query = select(DeviceLogin).where(DeviceLogin.device_digest == digest(device_code))
    login = (await session.execute(query)).scalar_one_or_none()
    now = utc_now()
    if login is None or login.expires_at <= now or login.status == "used":
        return DevicePoll("expired_token")
    if login.status == "denied":
        return DevicePoll("access_denied")
    if login.status == "pending":
        early = login.last_poll_at and login.last_poll_at > now - timedelta(seconds=poll_s * 0.8)
        login.last_poll_at = now
        return DevicePoll("slow_down" if early else "authorization_pending")
    user = await session.get(User, login.user_id)
    if user is None:
        return DevicePoll("access_denied")
    login.status = "used"
    token, value = await issue_token(
        session,
        kind="device",
        name=login.device_name,
        user_id=user.id,
        expires_at=now + timedelta(days=token_lifetime_days),
    )
    return DevicePoll(None, token, value, user)


async def pending_device_login(session: AsyncSession, user_code: str) -> DeviceLogin:
    """The login that waits under a code as a person types it (case and dash do not matter)."""
    letters = "".join(c for c in user_code.upper() if c.isalpha())
    query = select(DeviceLogin).where(
        DeviceLogin.user_code == f"{letters[:4]}-{letters[4:]}",
        DeviceLogin.status == "pending",
        DeviceLogin.expires_at > utc_now(),
    )
    login = (await session.execute(query)).scalar_one_or_none()
    if login is None:
        raise NotFound(
            "No login waits under this code.",
            hint="Codes last a few minutes; start `osmosis auth login` again.",
        )
    return login


async def decide_device_login(
    session: AsyncSession, user_code: str, user_id: str, *, approve: bool
) -> DeviceLogin:
    login = await pending_device_login(session, user_code)
    login.status = "approved" if approve else "denied"
    login.user_id = user_id if approve else None
    return login


async def revoke_token(session: AsyncSession, principal: Principal, token_id: str) -> None:
    """Revoke one of the person's own tokens; another's is as good as not there."""
    revoked = await session.execute(
        update(Token)
        .where(Token.id == token_id, Token.user_id == principal.user_id)
        .where(Token.revoked_at.is_(None))
        .values(revoked_at=utc_now())
        .returning(Token.id)
    )
    if revoked.scalar_one_or_none() is None:
        raise NotFound("There is no such token of yours.")


async def has_admin_password(session: AsyncSession) -> bool:
    """Whether some admin can sign in with a password."""
    query = select(User.id).where(User.is_admin.is_(True), User.password_hash.is_not(None))
    return (await session.execute(query.limit(1))).first() is not None


async def set_admin(session: AsyncSession, password: str, email: str | None = None) -> User:
    """Give an admin a password: the first account, or the one of ``email`` (made when new)."""
    hashed = hash_password(password)
    user = await first_user(session)
    if email is not None:
        wanted = normal_email(email)
        query = select(User).where(User.email == wanted)
        found = (await session.execute(query)).scalar_one_or_none()
        if found is None:
            found = User(email=wanted, name=wanted.partition("@")[0])
            session.add(found)
        user = found
    user.is_admin, user.password_hash = True, hashed
    await session.flush()
    return user


def normal_email(email: str) -> str:
    wanted = email.strip().lower()
    if not re.fullmatch(r"[^@\s]{1,64}@[^@\s]{1,255}", wanted):
        raise ValidationFailed("This is no email address.", field="email")
    return wanted
