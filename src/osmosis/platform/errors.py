"""How an exception becomes an answer: one JSON shape for programs, a page for browsers.

Nothing of a traceback or of the sent values reaches the client. An unexpected exception is
logged under an id, and the id is in the answer.
"""

from __future__ import annotations

import errno
import logging
import secrets
from collections.abc import Callable
from html import escape
from typing import Any, cast
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osmosis.wire.errors import AuthRequired, Issue, NotFound, OsmosisError, ValidationFailed

log = logging.getLogger("osmosis.platform")

NO_ROOM = 507
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

PageRenderer = Callable[[Request, int, str, str | None], Response]
"""Draws an error page: request, status, message, hint. Set as ``app.state.error_page``."""

NOT_OFFERED = {
    "/api/cli/training-runs": "Training runs",
    "/api/cli/benchmarks": "Benchmarks",
    "/api/cli/benchmark-runs": "Benchmark runs",
    "/api/cli/dev-rollout-server": "Development rollout servers",
    "/api/cli/eval-runs/imports": "Imports of local runs",
}


class SignInRequired(AuthRequired):
    """A page was asked for without a session; browsers are led to the sign-in page."""


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(OsmosisError, _designed)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _http)


class UnexpectedErrors:
    """The outermost layer: an exception that nobody expected becomes a plain 500 with an id."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watch)
        except Exception as error:
            if not started and is_not_unicode(error):
                await respond(Request(scope), NOT_UNICODE)(scope, receive, send)
                return
            error_id = secrets.token_hex(6)
            log.exception("Unexpected error %s at %s %s", error_id, scope["method"], scope["path"])
            if started:
                raise
            answer = respond(Request(scope), internal_error(error_id, error))
            await answer(scope, receive, send)


NOT_UNICODE = ValidationFailed(
    "The request holds text that is not valid Unicode: half of a surrogate pair.",
    hint="Send UTF-8, or both halves of each \\u pair.",
)


def is_not_unicode(error: BaseException | None) -> bool:
    """Whether text could not be encoded. JSON can spell half a character, and only storing it
    shows that; whatever holds text of ours can be encoded."""
    while error is not None:
        if "surrogates not allowed" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def internal_error(error_id: str, error: Exception) -> OsmosisError:
    if is_out_of_space(error):
        full = OsmosisError(
            "The server's disk has no room for this.",
            hint="Free some space there, or delete runs and datasets that are not needed.",
            details={"error_id": error_id},
        )
        full.http_status = NO_ROOM
        return full
    return OsmosisError(
        f"The server failed unexpectedly (error {error_id}).",
        hint="Look for that id in the server's log.",
        details={"error_id": error_id},
    )


def is_out_of_space(error: BaseException | None) -> bool:
    """Whether the disk, a quota or a size limit of the server's process was in the way."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
            return True
        if "database or disk is full" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def respond(request: Request, error: OsmosisError) -> Response:
    """The answer for a designed error, in the form that the client can read."""
    if wants_page(request):
        if isinstance(error, SignInRequired):
            query = request.scope["query_string"].decode("latin-1")
            target = quote(request.scope["path"] + (f"?{query}" if query else ""))
            return RedirectResponse(f"/login?next={target}", status_code=303)
        render: PageRenderer = getattr(request.app.state, "error_page", _plain_page)
        return render(request, error.http_status, str(error), error.hint)
    headers = {"WWW-Authenticate": "Bearer"} if error.http_status == 401 else None
    return JSONResponse(error.body(), status_code=error.http_status, headers=headers)


def wants_page(request: Request) -> bool:
    """Whether a browser asks for a page (the API never answers HTML)."""
    path: str = request.scope["path"]
    return not path.startswith("/api/") and "text/html" in request.headers.get("accept", "")


async def _designed(request: Request, error: Exception) -> Response:
    return respond(request, cast(OsmosisError, error))


async def _unreadable(request: Request, error: Exception) -> Response:
    issues = [_issue(item) for item in cast(RequestValidationError, error).errors()]
    count = f"{len(issues)} mistake{'s' if len(issues) != 1 else ''}"
    return respond(request, ValidationFailed(f"The request has {count}.", issues=issues))


def _issue(item: dict[str, Any]) -> Issue:
    place = [str(part) for part in item["loc"] if part not in ("body", "query", "path", "header")]
    if item["type"] == "json_invalid":
        return Issue(key="body", message="is not valid JSON.")
    return Issue(
        key=".".join(place) or "body", message=str(item["msg"]).removeprefix("Value error, ")
    )


async def _http(request: Request, error: Exception) -> Response:
    failure = cast(HTTPException, error)
    if failure.status_code in (404, 405):
        later = not_offered(request.scope["path"])
        if later or failure.status_code == 404:
            return respond(request, later or _no_such_path(request))
    designed = OsmosisError(f"{failure.detail}.", platform_code=f"HTTP_{failure.status_code}")
    designed.http_status = failure.status_code
    answer = respond(request, designed)
    answer.headers.update(failure.headers or {})
    return answer


def not_offered(path: str) -> OsmosisError | None:
    """The error for a part of the vendor's API that this server does not have."""
    for prefix, feature in NOT_OFFERED.items():
        if path == prefix or path.startswith(f"{prefix}/"):
            return NotFound(
                f"{feature} are not supported by this server.", platform_code="NOT_SUPPORTED"
            )
    return None


def _no_such_path(request: Request) -> OsmosisError:
    path: str = request.scope["path"]
    if path.startswith("/api/"):
        return NotFound(
            f"This server has no {request.method} {path}.",
            hint="The client may be newer than the server.",
            platform_code="NOT_SUPPORTED",
        )
    return NotFound("There is no such page.")


def _plain_page(request: Request, status: int, message: str, hint: str | None) -> Response:
    more = f"<p>{escape(hint)}</p>" if hint else ""
    return HTMLResponse(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Osmosis</title>"
        f"<main><h1>{escape(message)}</h1>{more}</main></html>",
        status_code=status,
    )
