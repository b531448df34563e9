"""The application: every room's routes, behind the checks that each request passes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.middleware import Middleware

import osmosis
from osmosis.platform import not_offered
from osmosis.platform.accounts import routes as accounts
from osmosis.platform.comparisons import routes as comparisons
from osmosis.platform.datasets import routes as datasets
from osmosis.platform.errors import UnexpectedErrors, install_error_handlers
from osmosis.platform.evals import routes as evals
from osmosis.platform.exports import routes as exports
from osmosis.platform.gates import routes as gates
from osmosis.platform.githost import routes as githost
from osmosis.platform.gitsync import routes as gitsync
from osmosis.platform.imports import routes as imports
from osmosis.platform.models import routes as models
from osmosis.platform.observability import routes as observability
from osmosis.platform.observability.requests import MeasureRequests
from osmosis.platform.platform import Platform
from osmosis.platform.rollouts import routes as rollouts
from osmosis.platform.runners import routes as runners
from osmosis.platform.secrets import routes as secrets
from osmosis.platform.security.hosts import GuardHosts
from osmosis.platform.security.limits import LimitBodies
from osmosis.platform.settings import Settings
from osmosis.platform.web import routes as web
from osmosis.platform.workspaces import routes as workspaces

ROOMS = (
    accounts,
    workspaces,
    secrets,
    models,
    datasets,
    githost,
    gitsync,
    rollouts,
    evals,
    exports,
    gates,
    comparisons,
    imports,
    runners,
    observability,
    web,
)
"""Each has a ``router``, and a ``setup(app, platform)`` where it brings jobs, background tasks or
applications of its own. The pages come last: their addresses begin with a workspace's name."""


NO_TELEMETRY: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""FastAPI can export requests, bodies of refused ones included, when the environment says so."""


def create_app(settings: Settings) -> FastAPI:
    """The server as an ASGI application; its lifespan starts and closes the platform."""
    platform = Platform.create(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        await platform.start()
        try:
            yield
        finally:
            await platform.close()

    app = FastAPI(
        title="Osmosis",
        version=osmosis.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
        lifespan=lifespan,
        middleware=[
            Middleware(MeasureRequests, metrics=platform.metrics),
            Middleware(UnexpectedErrors),
            Middleware(GuardHosts, settings=settings),
            Middleware(LimitBodies, settings=settings),
        ],
    )
    app.state.platform = platform
    install_error_handlers(app)

    @app.get("/api/health")
    async def health() -> dict[str, Any]:
        problem = {"problem": "disk full"} if platform.storage.full else {}
        return {"status": "ok", "version": osmosis.__version__, **problem}

    # Not `include_router`: it makes every route anew for this application, at its first request.
    app.router.routes.extend(not_offered.router.routes)
    for room in ROOMS:
        app.router.routes.extend(room.router.routes)
        if setup := getattr(room, "setup", None):
            setup(app, platform)
    return app
