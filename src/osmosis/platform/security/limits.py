"""A bound on the body of ordinary API calls, before anything reads it into memory.

Uploads, git and the bulk calls of the runner API read their bodies themselves, once they know who
calls, and bound them on their own. Everything else is read before anybody is asked for a token.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osmosis.platform.errors import respond
from osmosis.platform.settings import Settings
from osmosis.wire.errors import OsmosisError

STREAMED = re.compile(r"/(git|api/uploads)/|/api/runner/runs/[^/]+/(records|logs|artifacts/)")


class BodyTooLarge(OsmosisError):
    code, http_status = "BODY_TOO_LARGE", 413


class LimitBodies:
    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.limit_bytes = settings.body_limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or STREAMED.match(scope["path"]):
            await self.app(scope, receive, send)
            return
        declared = Request(scope).headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self.limit_bytes:
            await self._refuse(scope, receive, send)
            return
        taken = 0
        started = False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            # To the application an endless body is a client that went away.
            return {"type": "http.disconnect"} if taken > self.limit_bytes else message

        async def guarded(message: Message) -> None:
            nonlocal started
            if started or taken <= self.limit_bytes:
                started = True
                await send(message)

        try:
            await self.app(scope, counted, guarded)
        except Exception:
            if taken <= self.limit_bytes:
                raise
        if taken > self.limit_bytes and not started:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = BodyTooLarge(
            f"The request body is larger than {self.limit_bytes:,} bytes.",
            hint="The server's setting OSMOSIS_BODY_LIMIT_BYTES allows more.",
        )
        await respond(Request(scope), error)(scope, receive, send)
