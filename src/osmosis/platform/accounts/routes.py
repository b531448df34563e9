"""``/api/cli`` calls about the caller's account (platform-api.md §1.7)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from osmosis.platform.accounts import pages, service
from osmosis.platform.addresses import public_url
from osmosis.platform.deps import (
    GIT_HEADER,
    WORKSPACE_HEADER,
    CurrentPlatform,
    CurrentUser,
    require_scope,
)
from osmosis.platform.paging import iso, iso_or_none
from osmosis.platform.security.sessions import create_login_code

router = APIRouter()
router.include_router(pages.router)
api = APIRouter(prefix="/api/cli")


class DeviceStart(BaseModel):
    deviceName: str = Field(default="", max_length=1000)


class DevicePollBody(BaseModel):
    device_code: str = Field(max_length=200)


@api.post("/device/authorize")
async def device_authorize(
    body: DeviceStart, request: Request, platform: CurrentPlatform
) -> dict[str, Any]:
    lifetime_s = platform.settings.device_login_s
    async with platform.db.write() as session:
        codes = await service.begin_device_login(session, body.deviceName, lifetime_s=lifetime_s)
    page = public_url(request, "/device")
    return {
        "device_code": codes.device_code,
        "user_code": codes.user_code,
        "verification_uri": page,
        "verification_uri_complete": f"{page}?user_code={codes.user_code}",
        "expires_in": lifetime_s,
        "interval": platform.settings.device_poll_s,
    }


@api.post("/device/token")
async def device_token(
    body: DevicePollBody, response: Response, platform: CurrentPlatform
) -> dict[str, Any]:
    async with platform.db.write() as session:
        poll = await service.poll_device_login(
            session,
            body.device_code,
            poll_s=platform.settings.device_poll_s,
            token_lifetime_days=platform.settings.token_lifetime_days,
        )
    if poll.token is None or poll.user is None:
        # Never 429 for slow_down: the vendor's CLI would end the login.
        response.status_code = 400
        reason = poll.error or "expired_token"
        return {"error": reason, "message": reason, "code": reason}
    return {
        "token": poll.value,
        "token_id": poll.token.id,
        "expires_at": iso_or_none(poll.token.expires_at),
        "user": {"id": poll.user.id, "email": poll.user.email, "name": poll.user.name},
    }


@api.get("/verify")
async def verify(request: Request, user: CurrentUser) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "user": {"id": user.user_id, "email": user.email, "name": user.name},
        "token_id": user.token_id,
        "workspace": None,
    }
    if user.expires_at:
        answer["expires_at"] = iso(user.expires_at)
    if request.headers.get(GIT_HEADER) or request.headers.get(WORKSPACE_HEADER):
        scope = await require_scope(request)
        answer["workspace"] = {
            "id": scope.workspace.id,
            "name": scope.workspace.name,
            "role": scope.role,
        }
    return answer


@api.delete("/tokens/{token_id}")
async def revoke(token_id: str, platform: CurrentPlatform, user: CurrentUser) -> dict[str, Any]:
    async with platform.db.write() as session:
        await service.revoke_token(session, user, token_id)
    return {}


@api.post("/login-links")
async def login_link(
    request: Request, platform: CurrentPlatform, user: CurrentUser
) -> dict[str, Any]:
    """A fresh one-time link to the pages, for the CLI to print or open."""
    lifetime_s = platform.settings.login_link_s
    async with platform.db.write() as session:
        code = await create_login_code(session, user.user_id, lifetime_s=lifetime_s)
    return {"url": public_url(request, f"/login?code={code}"), "expires_in": lifetime_s}


router.include_router(api)
