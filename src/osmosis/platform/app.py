"""The application: every room's routes, behind the checks that each request passes."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.middleware import Middleware

import osmosis
from osmosis.platform import not_offered
from osmosis.platform.errors import UnexpectedErrors, install_error_handlers
from osmosis.platform.platform import Platform
from osmosis.platform.security.hosts import GuardHosts
from osmosis.platform.security.limits import LimitBodies
from osmosis.platform.settings import Settings

ROOMS = (
    "accounts",
    "workspaces",
    "secrets",
    "models",
    "datasets",
    "githost",
    "gitsync",
    "rollouts",
    "evals",
    "runners",
    "web",
)
"""Each is ``osmosis.platform.<room>.routes`` with a ``router``, and a ``setup(app, platform)``
where it has jobs, background tasks or mounted applications of its own."""


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
        lifespan=lifespan,
        middleware=[
            Middleware(UnexpectedErrors),
            Middleware(GuardHosts, settings=settings),
            Middleware(LimitBodies, settings=settings),
        ],
    )
    app.state.platform = platform
    install_error_handlers(app)

    @app.get("/api/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "version": osmosis.__version__}

    for room in ROOMS:
        name = f"osmosis.platform.{room}.routes"
        if importlib.util.find_spec(f"osmosis.platform.{room}") is None:
            continue
        if importlib.util.find_spec(name) is None:
            continue
        module = importlib.import_module(name)
        app.include_router(module.router)
        if setup := getattr(module, "setup", None):
            setup(app, platform)
    app.include_router(not_offered.router)
    return app
