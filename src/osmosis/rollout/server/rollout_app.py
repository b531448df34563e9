"""The ASGI app of a rollout: FastAPI for whatever user code adds, and a short way past it.

Admission and polling come for every sample. Between FastAPI and a route lie a dozen layers, which
cost more than the rollout itself, so these two calls are answered before the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from osmosis.rollout.server.lifecycle import Lifespan
from osmosis.rollout.server.routes import Answer, Routes
from osmosis.rollout.types.protocol import POLLING_LEASE_HEADER

ADMISSION = "/rollout"
RESULT_PREFIX, RESULT_SUFFIX = "/rollout/", "/result"
LEASE_HEADER = POLLING_LEASE_HEADER.lower().encode()
UNTIL_FINISHED = b"until=finished"
JSON_TYPE = (b"content-type", b"application/json")


class RolloutApp(FastAPI):
    """Every call goes through all layers as soon as user code adds a middleware of its own."""

    def __init__(self, routes: Routes, *, lifespan: Lifespan) -> None:
        super().__init__(title="Osmosis rollout server", lifespan=lifespan, openapi_url=None)
        self._routes = routes
        self.add_route(ADMISSION, self._admit, methods=["POST"])
        self.add_route("/rollout/cancel", self._cancel, methods=["POST"])
        self.add_route("/rollout/{rollout_id}/result", self._result, methods=["GET"])
        self.add_route("/health", self._health, methods=["GET"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not (self.user_middleware or scope.get("root_path")):
            method, path = scope["method"], scope["path"]
            if method == "POST" and path == ADMISSION:
                content = await _content(receive)
                if content is not None:
                    await _send(send, self._routes.admit(content))
                return
            if method == "GET" and (rollout_id := _polled(path)):
                await _send(send, await self._poll(scope, rollout_id))
                return
        await super().__call__(scope, receive, send)

    async def _poll(self, scope: Scope, rollout_id: str) -> Answer:
        token = next((value for name, value in scope["headers"] if name == LEASE_HEADER), b"")
        return await self._routes.result(
            rollout_id,
            token.decode("latin-1"),
            until_finished=UNTIL_FINISHED in scope["query_string"],
        )

    async def _admit(self, request: Request) -> Response:
        return _response(self._routes.admit(await request.body()))

    async def _result(self, request: Request) -> Response:
        return _response(await self._poll(request.scope, request.path_params["rollout_id"]))

    async def _cancel(self, request: Request) -> Response:
        return _response(await self._routes.cancel(await request.body()))

    async def _health(self, request: Request) -> Response:
        return _response(self._routes.health())


def _polled(path: str) -> str:
    """The rollout whose result the path asks for; empty when it asks for something else."""
    if not (path.startswith(RESULT_PREFIX) and path.endswith(RESULT_SUFFIX)):
        return ""
    rollout_id = path[len(RESULT_PREFIX) : -len(RESULT_SUFFIX)]
    return "" if "/" in rollout_id else rollout_id


async def _content(receive: Receive) -> bytes | None:
    """The body of a request; None when the client went away before its end."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _send(send: Send, answer: Answer) -> None:
    headers = [JSON_TYPE, (b"content-length", b"%d" % len(answer.body)), *_raw(answer.headers)]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _response(answer: Answer) -> Response:
    return Response(answer.body, answer.status, dict(answer.headers), media_type="application/json")


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
    ]
