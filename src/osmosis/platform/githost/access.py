"""Who may use a hosted repository: an API token, as the password of Basic auth or as bearer."""

from __future__ import annotations

import base64
import binascii

from osmosis.platform.db.models import Repository
from osmosis.platform.platform import Platform
from osmosis.platform.security.tokens import principal_of
from osmosis.platform.workspaces import service as workspaces
from osmosis.wire.errors import AuthRequired, NotFound


async def authorized(
    platform: Platform, authorization: str | None, identity: str
) -> tuple[Repository, str]:
    """The hosted repository and the person's email; raises when it may not be used."""
    token = token_of(authorization)
    async with platform.db.read() as session:
        principal = await principal_of(session, token)
        found = await workspaces.by_identity(session, principal.user_id, identity)
    repository = found.repository
    if repository is None or repository.kind != "hosted":
        raise NotFound(
            f"'{identity}' is fetched from another server and not hosted here.",
            hint="Push to that server, or connect the workspace to the hosted repository.",
            platform_code="REPOSITORY_NOT_HOSTED",
        )
    return repository, principal.email


def token_of(authorization: str | None) -> str:
    """The token of an Authorization header: Basic with any user name, or Bearer."""
    scheme, _, value = (authorization or "").strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return value
    if scheme.lower() == "basic":
        try:
            user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            user, colon, password = "", "", ""
        if colon and (password or user):
            return password or user
    raise AuthRequired(
        "Pushing and fetching need a token.",
        hint="`osmosis init` sets up git's credential helper; or give the token as the password.",
        platform_code="AUTH_HEADER_MISSING",
    )
