"""``/git/<owner>/<repo>.git/…`` as a raw ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from osmosis.platform.db.models import Repository
from osmosis.platform.githost.access import authorized
from osmosis.platform.githost.backend import BackendFailed, GitRequest, Served, serve
from osmosis.platform.gitsync.service import catalogue, ensure_hosted
from osmosis.platform.platform import Platform
from osmosis.wire.errors import NotFound, OsmosisError, ValidationFailed

CATALOGUE_WAIT_S = 5.0
"""A push waits so long for its catalogue before the client hears that it is done."""

BUSY_WAIT_S = 20.0
UPLOAD, RECEIVE = "git-upload-pack", "git-receive-pack"
_PATH = re.compile(
    r"/(?P<owner>[^/]+)/(?P<repo>[^/]+?)(?:\.git)?"
    rf"/(?P<rest>info/refs|{UPLOAD}|{RECEIVE})"
)

log = logging.getLogger("osmosis.platform.githost")


class Busy(OsmosisError):
    code, http_status = "GIT_BUSY", 503


class GitHost:
    """Serves what git's smart HTTP protocol asks for, and nothing else."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self._slots = asyncio.Semaphore(platform.settings.git_transfers_at_once)
        self._catalogues: set[asyncio.Task[object]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            await self._serve(request, scope, receive, send)
        except OsmosisError as error:
            await refusal(error)(scope, receive, send)

    async def _serve(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        path = _PATH.fullmatch(request.scope["path"].removeprefix(scope.get("root_path", "")))
        if path is None:
            raise NotFound("There is no such place under /git.", hint="/git/OWNER/REPO.git")
        rest, query = path["rest"], self._query(request, path["rest"])
        repository, email = await authorized(
            self.platform,
            request.headers.get("authorization"),
            f"{path['owner']}/{path['repo']}",
        )
        directory = await ensure_hosted(self.platform, repository)
        ask = GitRequest(
            method=request.method,
            repository=directory,
            service_path=rest,
            query=query,
            user=email,
            headers=dict(request.headers),
        )
        async with self._slot():
            await self._exchange(ask, repository, receive, send)

    async def _exchange(
        self, ask: GitRequest, repository: Repository, receive: Receive, send: Send
    ) -> None:
        async def before_end(served: Served) -> None:
            if ask.service_path == RECEIVE:
                await self._catalogue(repository)

        try:
            served = await serve(self.platform.settings, ask, receive, send, before_end=before_end)
        except BackendFailed:
            log.warning("git http-backend failed for repository %s", repository.id)
            raise OsmosisError(
                "git failed on the server.", hint="The server's log may say more."
            ) from None
        if not served.complete:
            log.info("A transfer of repository %s was ended: %s.", repository.id, served.why)
        elif served.complaint:
            said = served.complaint.decode(errors="replace").strip()
            log.info("git said of repository %s: %s", repository.id, said)

    def _query(self, request: Request, rest: str) -> str:
        """The checked query: ``info/refs`` names one of the two services, the others have none."""
        if rest != "info/refs":
            if request.method != "POST":
                raise ValidationFailed(f"{rest} takes POST only.")
            return ""
        service = request.query_params.get("service", "")
        if request.method != "GET" or service not in (UPLOAD, RECEIVE):
            raise ValidationFailed(
                "Only git's smart HTTP protocol is served here.", hint="Use git 1.6.6 or newer."
            )
        return f"service={service}"

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(BUSY_WAIT_S):
                await self._slots.acquire()
        except TimeoutError:
            raise Busy("Too many git transfers at once.", hint="Try again in a minute.") from None
        try:
            yield
        finally:
            self._slots.release()

    async def _catalogue(self, repository: Repository) -> None:
        """See what was pushed. A big catalogue goes on after the push has been answered."""
        task = asyncio.create_task(self._catalogue_quietly(repository.id))
        self._catalogues.add(task)
        task.add_done_callback(self._catalogues.discard)
        await asyncio.wait({task}, timeout=CATALOGUE_WAIT_S)

    async def _catalogue_quietly(self, repository_id: str) -> None:
        try:
            await catalogue(self.platform, repository_id)
        except Exception:
            log.exception("The push to repository %s could not be catalogued.", repository_id)


def refusal(error: OsmosisError) -> PlainTextResponse:
    """An answer that git shows to the person: plain text after ``remote:``."""
    text = f"{error.message}\n{error.hint}\n" if error.hint else f"{error.message}\n"
    headers = {}
    if error.http_status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="Osmosis: your API token is the password"'
    if error.http_status == 503:
        headers["Retry-After"] = "30"
    return PlainTextResponse(text, status_code=error.http_status, headers=headers)
