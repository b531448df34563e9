"""Pages for signing in (``/login``) and for approving a device login (``/device``)."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request
from jinja2 import Environment, FileSystemLoader, select_autoescape
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from osmosis.platform.accounts import service
from osmosis.platform.db.models import User
from osmosis.platform.deps import CurrentPlatform, PageUser
from osmosis.platform.security.passwords import check_password
from osmosis.platform.security.sessions import page_user, redeem_login_code, sign_in, sign_out
from osmosis.wire.errors import NotFound, RateLimited

TEMPLATES = Path(__file__).parent / "templates"
NEXT_COOKIE = "osmosis_next"
NEXT_COOKIE_S = 600
PASSWORD_TRIES, PASSWORD_TRIES_WINDOW_S = 10, 60.0

router = APIRouter(include_in_schema=False)
_pages = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=select_autoescape())
_password_tries: deque[float] = deque(maxlen=PASSWORD_TRIES)


@router.get("/account/account.css")
async def style() -> Response:
    return FileResponse(TEMPLATES / "account.css", headers={"Cache-Control": "max-age=3600"})


@router.get("/login")
async def login(
    request: Request, platform: CurrentPlatform, code: str = "", next: str = ""
) -> Response:
    """Redeem a one-time link, or say how to get one."""
    if not code:
        if await page_user(request):
            return RedirectResponse(local_path(next), status_code=303)
        answer = await _login_page(platform, next)
        if next:
            answer.set_cookie(
                NEXT_COOKIE, local_path(next), NEXT_COOKIE_S, httponly=True, samesite="lax"
            )
        return answer
    async with platform.db.write() as session:
        user = await redeem_login_code(session, code)
    if user is None:
        problem = "This link was used before or is too old. Ask for a fresh one."
        return await _login_page(platform, next, problem, status=403)
    return _signed_in(request, user, next or request.cookies.get(NEXT_COOKIE, ""))


@router.post("/login")
async def login_with_password(
    request: Request,
    platform: CurrentPlatform,
    email: Annotated[str, Form(max_length=320)],
    password: Annotated[str, Form(max_length=2000)],
    next: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    _slow_down_guessing()
    async with platform.db.read() as session:
        query = select(User).where(User.email == email.strip().lower())
        user = (await session.execute(query)).scalar_one_or_none()
    stored = user.password_hash if user else None
    if not await run_in_threadpool(check_password, password, stored) or user is None:
        return await _login_page(platform, next, "Email or password is wrong.", status=403)
    return _signed_in(request, user, next)


@router.post("/logout")
async def logout() -> Response:
    answer = RedirectResponse("/login", status_code=303)
    sign_out(answer)
    return answer


@router.get("/device")
async def device(platform: CurrentPlatform, user: PageUser, user_code: str = "") -> Response:
    if not user_code:
        return _page("device.html")
    try:
        async with platform.db.read() as session:
            found = await service.pending_device_login(session, user_code)
    except NotFound as error:
        return _page("device.html", status=404, problem=f"{error.message} {error.hint}")
    return _page("device.html", user=user, user_code=found.user_code, device_name=found.device_name)


@router.post("/device")
async def decide(
    platform: CurrentPlatform,
    user: PageUser,
    user_code: Annotated[str, Form(max_length=40)],
    decision: Annotated[str, Form(max_length=20)],
) -> Response:
    approve = decision == "approve"
    async with platform.db.write() as session:
        await service.decide_device_login(session, user_code, user.user_id, approve=approve)
    return _page("device.html", done="The login is approved." if approve else "Denied.")


def local_path(target: str) -> str:
    """A path on this server to go on to; anything else becomes the start page."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not target.startswith("/") or "\\" in target:
        return "/"
    return "/" if target.startswith("//") else target


def _slow_down_guessing() -> None:
    now = time.monotonic()
    full = len(_password_tries) == PASSWORD_TRIES
    if full and _password_tries[0] > now - PASSWORD_TRIES_WINDOW_S:
        raise RateLimited("Too many sign-in attempts.", hint="Wait a minute and try again.")
    _password_tries.append(now)


def _signed_in(request: Request, user: User, next_path: str) -> Response:
    answer = RedirectResponse(local_path(next_path), status_code=303)
    answer.delete_cookie(NEXT_COOKIE)
    sign_in(request, answer, user)
    return answer


async def _login_page(
    platform: CurrentPlatform, next_path: str, problem: str = "", *, status: int = 200
) -> Response:
    async with platform.db.read() as session:
        query = select(User.id).where(User.password_hash.is_not(None)).limit(1)
        passwords = (await session.execute(query)).first() is not None
    return _page(
        "login.html",
        status=status,
        next=local_path(next_path),
        problem=problem,
        passwords=passwords,
    )


def _page(template: str, *, status: int = 200, **values: Any) -> Response:
    return HTMLResponse(_pages.get_template(template).render(**values), status_code=status)
