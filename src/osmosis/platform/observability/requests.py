"""Counts HTTP requests by the template of their route, never by what stands in its place."""

from __future__ import annotations

import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osmosis.platform.observability.metrics import OTHER, Metrics

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class MeasureRequests:
    """ASGI middleware. An answer that never began counts as 500."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, began = 500, time.perf_counter()

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watch)
        finally:
            method = scope["method"] if scope["method"] in METHODS else OTHER
            route = route_of(scope)
            self.metrics.requests.labels(method, route, str(status)).inc()
            self.metrics.request_time.labels(route).observe(time.perf_counter() - began)


def route_of(scope: Scope) -> str:
    """The template of the route that answered, such as ``/api/cli/eval-runs/{run}``."""
    route: Any = scope.get("route")
    path = getattr(route, "path", None)
    return path if isinstance(path, str) and path else OTHER
