"""What a route asks for: the platform, the person, the workspace, the worker.

Every dependency is a coroutine, even where it awaits nothing: FastAPI sends others to a thread.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from osmosis.platform.db.models import Workspace
from osmosis.platform.platform import Platform
from osmosis.platform.security.sessions import require_page_user
from osmosis.platform.security.tokens import Principal, bearer, digest, read_principal, read_token
from osmosis.platform.workspaces import service as workspaces
from osmosis.wire.errors import AuthRequired, Forbidden, ValidationFailed

GIT_HEADER = "X-Osmosis-Git"
WORKSPACE_HEADER = "X-Osmosis-Workspace"
WORKER_TOKEN_KNOWN_S = 2.0
KNOWN_WORKERS = 256

__all__ = [
    "CurrentPlatform",
    "CurrentScope",
    "CurrentUser",
    "CurrentWorker",
    "PageUser",
    "Principal",
    "Scope",
    "WorkerPrincipal",
    "get_platform",
    "require_page_user",
    "require_scope",
    "require_user",
    "require_worker",
]


@dataclass(frozen=True)
class Scope:
    """The workspace that a request is about, and what its maker may do there."""

    workspace: Workspace
    principal: Principal
    role: str

    @property
    def manages(self) -> bool:
        """Whether the role may change what all members share."""
        return self.role in ("owner", "admin")

    def require_manager(self, what: str) -> None:
        if not self.manages:
            raise Forbidden(
                f"Only an owner or admin of the workspace may {what}.",
                hint="Ask one of them.",
                platform_code="ROLE_REQUIRED",
            )


@dataclass(frozen=True)
class WorkerPrincipal:
    """A worker that shows a worker token."""

    token_id: str
    name: str


def platform_of(request: Request) -> Platform:
    """The platform that answers the request."""
    return request.app.state.platform


async def get_platform(request: Request) -> Platform:
    return platform_of(request)


async def require_user(request: Request) -> Principal:
    """The person of the bearer token; 401 without one."""
    value = bearer(request.headers.get("authorization"))
    return await platform_of(request).db.look(lambda session: read_principal(session, value))


async def require_scope(request: Request) -> Scope:
    """The workspace named by ``X-Osmosis-Git`` or ``X-Osmosis-Workspace``, for a member only."""
    value = bearer(request.headers.get("authorization"))
    identity = request.headers.get(GIT_HEADER)
    name = request.headers.get(WORKSPACE_HEADER)
    if identity and name:
        raise ValidationFailed(
            f"Send either {GIT_HEADER} or {WORKSPACE_HEADER}, not both.",
            platform_code="WORKSPACE_SCOPE_HEADER_CONFLICT",
        )

    def find(session: Session) -> Scope:
        principal = read_principal(session, value)
        if identity:
            found = workspaces.read_by_identity(session, principal.user_id, identity)
        elif name:
            found = workspaces.read_by_name(session, principal.user_id, name)
        else:
            raise ValidationFailed(
                "This call is about a workspace, and none is named.",
                hint="Run the command inside a workspace directory, or give --workspace NAME.",
                platform_code="GIT_SCOPE_REQUIRED",
            )
        return Scope(found.workspace, principal, found.role)

    return await platform_of(request).db.look(find)


async def require_worker(request: Request) -> WorkerPrincipal:
    """The worker of the bearer token; 401 for anybody else."""
    value = bearer(request.headers.get("authorization"))
    platform = platform_of(request)
    known = platform.worker_tokens.get(digest(value))
    if known is not None and known[1] > time.monotonic():
        return WorkerPrincipal(known[0].id, known[0].name)
    token, _ = await platform.db.look(lambda session: read_token(session, value))
    if token.kind != "worker":
        raise AuthRequired("This call needs a worker token.", platform_code="TOKEN_INVALID")
    # A worker posts up to twenty batches a second; a revoked token may work this long.
    if len(platform.worker_tokens) >= KNOWN_WORKERS:
        platform.worker_tokens.clear()
    platform.worker_tokens[token.digest] = (token, time.monotonic() + WORKER_TOKEN_KNOWN_S)
    return WorkerPrincipal(token.id, token.name)


CurrentPlatform = Annotated[Platform, Depends(get_platform)]
CurrentUser = Annotated[Principal, Depends(require_user)]
CurrentScope = Annotated[Scope, Depends(require_scope)]
CurrentWorker = Annotated[WorkerPrincipal, Depends(require_worker)]
PageUser = Annotated[Principal, Depends(require_page_user)]
