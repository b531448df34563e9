"""Makes the rollout server: its routes on an app that user code may extend."""

from __future__ import annotations

import logging
import math

from fastapi import FastAPI

from osmosis.rollout.backend.base import ExecutionBackend
from osmosis.rollout.server.auth import BearerMiddleware
from osmosis.rollout.server.lifecycle import Lifespan, rollout_lifespan
from osmosis.rollout.server.output import tag_output
from osmosis.rollout.server.registry import Registry, Timing
from osmosis.rollout.server.rollout_app import RolloutApp
from osmosis.rollout.server.routes import Routes

RESULT_WAIT_TIMEOUT_S = 30.0
POLLING_LEASE_TIMEOUT_S = 120.0
RESULT_RETENTION_S = 900.0


def create_rollout_server(
    *,
    backend: ExecutionBackend,
    lifespan: Lifespan | None = None,
    configure_logging: bool = True,
    result_wait_timeout_sec: float = RESULT_WAIT_TIMEOUT_S,
    polling_lease_timeout_sec: float = POLLING_LEASE_TIMEOUT_S,
    result_retention_sec: float = RESULT_RETENTION_S,
    api_key: str | None = None,
) -> FastAPI:
    """The app that serves ``backend``.

    ``lifespan`` is the user's own, closed after the last rollout has ended. With ``api_key``
    every route demands it as bearer. ``configure_logging`` installs an INFO handler on the root
    logger when there is none.
    """
    timing = _timing(result_wait_timeout_sec, polling_lease_timeout_sec, result_retention_sec)
    if api_key is not None and not api_key.strip():
        raise ValueError("api_key must be non-empty when it is given")
    tag_output()
    if configure_logging and not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    registry = Registry(timing)
    app = RolloutApp(
        Routes(backend, registry), lifespan=rollout_lifespan(backend, registry, lifespan)
    )
    if api_key is not None:
        app.add_middleware(BearerMiddleware, api_key=api_key)
    return app


def _timing(wait_s: float, lease_s: float, retention_s: float) -> Timing:
    if not (math.isfinite(wait_s) and wait_s > 0):
        raise ValueError("result_wait_timeout_sec must be finite and greater than zero")
    if not (math.isfinite(lease_s) and lease_s > wait_s):
        raise ValueError("polling_lease_timeout_sec must be finite and above the result wait")
    if not (math.isfinite(retention_s) and retention_s >= 0):
        raise ValueError("result_retention_sec must be finite and not negative")
    return Timing(wait_s, lease_s, retention_s)
