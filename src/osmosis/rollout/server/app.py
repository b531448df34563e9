"""The rollout server: admission, polling, cancelling, health.

The routes are plain Starlette: a controller calls them two or three times for every sample, and
checking and rebuilding messages model by model would cost more than the rollout itself.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import uuid
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from osmosis.rollout.backend.base import ExecutionBackend
from osmosis.rollout.server.auth import BearerMiddleware
from osmosis.rollout.server.execution import Executor
from osmosis.rollout.server.lifecycle import Lifespan, rollout_lifespan
from osmosis.rollout.server.output import tag_output
from osmosis.rollout.server.registry import Entry, Registry, Timing
from osmosis.rollout.server.requests import Unprocessable, issue, parse_admission, parse_cancel
from osmosis.rollout.server.results import dumps, result_body
from osmosis.rollout.trajectory.document import DISTRIBUTION, sdk_version
from osmosis.rollout.types.protocol import POLLING_LEASE_HEADER

RESULT_WAIT_TIMEOUT_S = 30.0
POLLING_LEASE_TIMEOUT_S = 120.0
RESULT_RETENTION_S = 900.0
RETRY_AFTER_S = 5
INSTANCE_VARIABLE = "_OSMOSIS_ROLLOUT_INSTANCE_ID"

PROCESS_ID = uuid.uuid4().hex


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
    app = FastAPI(
        title="Osmosis rollout server",
        lifespan=rollout_lifespan(backend, registry, lifespan),
        openapi_url=None,
    )
    routes = _Routes(backend, registry)
    app.add_route("/rollout", routes.admit, methods=["POST"])
    app.add_route("/rollout/cancel", routes.cancel, methods=["POST"])
    app.add_route("/rollout/{rollout_id}/result", routes.result, methods=["GET"])
    app.add_route("/health", routes.health, methods=["GET"])
    if api_key is not None:
        app.add_middleware(BearerMiddleware, api_key=api_key)
    return app


class _Routes:
    def __init__(self, backend: ExecutionBackend, registry: Registry) -> None:
        self.backend = backend
        self.registry = registry
        self.executor = Executor(backend, registry)
        self.instance_id = os.environ.get(INSTANCE_VARIABLE) or PROCESS_ID

    async def admit(self, request: Request) -> Response:
        """``POST /rollout``"""
        try:
            admission = parse_admission(await request.body())
        except Unprocessable as error:
            return _refusal(422, error.detail)
        rollout_id = admission.request.rollout_id
        if not self.registry.accepting:
            return _refusal(503, "the rollout server is shutting down")
        if self.registry.get(rollout_id) is not None:
            return _refusal(409, f"rollout {rollout_id!r} is already registered")
        if not self.backend.has_capacity():
            headers = {"Retry-After": str(RETRY_AFTER_S)}
            return _refusal(429, "no capacity for another rollout; retry later", headers)
        entry, token = self.registry.admit(rollout_id, leased=admission.leased)
        task = asyncio.create_task(self.executor.run(entry, admission.request))
        self.registry.start(entry, task)
        answer = {
            "rollout_id": rollout_id,
            "status": entry.status.value,
            "polling_lease_token": token,
            "result_wait_timeout_sec": self.registry.timing.result_wait_s,
            "polling_lease_timeout_sec": self.registry.timing.lease_s,
        }
        return _json(dumps(answer), 202)

    async def result(self, request: Request) -> Response:
        """``GET /rollout/{rollout_id}/result``: a long poll.

        It ends at the next change of status. ``?until=finished``, an addition of ours, sleeps
        through the changes in between.
        """
        token = request.headers.get(POLLING_LEASE_HEADER)
        if not token:
            where: list[str | int] = ["header", POLLING_LEASE_HEADER]
            return _refusal(422, [issue("missing", where, "Field required")])
        entry = self.registry.get(request.path_params["rollout_id"])
        if entry is None:
            return _refusal(404, "no such rollout, or its result is no longer kept")
        if not self.registry.token_fits(entry, token):
            return _refusal(403, "the lease token does not belong to this rollout")
        until_finished = b"until=finished" in request.scope["query_string"]
        await self.registry.wait(entry, until_finished=until_finished)
        return _json(_result_of(entry))

    async def cancel(self, request: Request) -> Response:
        """``POST /rollout/cancel``"""
        try:
            wanted = parse_cancel(await request.body())
        except Unprocessable as error:
            return _refusal(422, error.detail)
        dispositions = self.registry.cancel(ids=wanted.ids, prefix=wanted.prefix)
        await self.backend.cancel_rollouts(ids=wanted.ids, prefix=wanted.prefix, all=wanted.all)
        return _json(dumps({"dispositions": dispositions}))

    async def health(self, request: Request) -> Response:
        """``GET /health``"""
        body: dict[str, Any] = {
            "status": "ok",
            **self.backend.health(),
            "instance_id": self.instance_id,
            "process_id": PROCESS_ID,
            "lifecycle": {
                "accepting_rollouts": self.registry.accepting,
                "active_rollouts": self.registry.active_count,
            },
            "sdk": {"name": DISTRIBUTION, "version": sdk_version()},
        }
        return _json(dumps(body))


def _result_of(entry: Entry) -> bytes:
    if entry.body is None:
        return result_body(entry.rollout_id, entry.status)
    entry.fetched = True
    return entry.body


def _json(content: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(content, status, headers, media_type="application/json")


def _refusal(status: int, detail: object, headers: dict[str, str] | None = None) -> Response:
    return _json(dumps({"detail": detail}), status, headers)


def _timing(wait_s: float, lease_s: float, retention_s: float) -> Timing:
    if not (math.isfinite(wait_s) and wait_s > 0):
        raise ValueError("result_wait_timeout_sec must be finite and greater than zero")
    if not (math.isfinite(lease_s) and lease_s > wait_s):
        raise ValueError("polling_lease_timeout_sec must be finite and above the result wait")
    if not (math.isfinite(retention_s) and retention_s >= 0):
        raise ValueError("result_retention_sec must be finite and not negative")
    return Timing(wait_s, lease_s, retention_s)
