"""What the rollout server answers: admission, polling, cancelling, health.

Nothing here knows how a request arrived; ``rollout_app.py`` does.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from osmosis.rollout.backend.base import ExecutionBackend
from osmosis.rollout.server.execution import Executor
from osmosis.rollout.server.registry import Registry
from osmosis.rollout.server.requests import Unprocessable, issue, parse_admission, parse_cancel
from osmosis.rollout.server.results import dumps, result_body
from osmosis.rollout.trajectory.document import DISTRIBUTION, sdk_version
from osmosis.rollout.types.protocol import POLLING_LEASE_HEADER

RETRY_AFTER_S = 5
INSTANCE_VARIABLE = "_OSMOSIS_ROLLOUT_INSTANCE_ID"

PROCESS_ID = uuid.uuid4().hex


class Answer(NamedTuple):
    """A status, a JSON body, and headers beyond those that every answer has."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class Routes:
    """The four calls of the protocol on one backend."""

    def __init__(self, backend: ExecutionBackend, registry: Registry) -> None:
        self.backend = backend
        self.registry = registry
        self.executor = Executor(backend, registry)
        self.instance_id = os.environ.get(INSTANCE_VARIABLE) or PROCESS_ID

    def admit(self, content: bytes) -> Answer:
        """``POST /rollout``"""
        try:
            admission = parse_admission(content)
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
        return Answer(202, dumps(answer))

    async def result(self, rollout_id: str, token: str | None, *, until_finished: bool) -> Answer:
        """``GET /rollout/{rollout_id}/result``: a long poll.

        It ends at the next change of status. ``?until=finished``, an addition of ours, sleeps
        through the changes in between.
        """
        if not token:
            where: list[str | int] = ["header", POLLING_LEASE_HEADER]
            return _refusal(422, [issue("missing", where, "Field required")])
        entry = self.registry.get(rollout_id)
        if entry is None:
            return _refusal(404, "no such rollout, or its result is no longer kept")
        if not self.registry.token_fits(entry, token):
            return _refusal(403, "the lease token does not belong to this rollout")
        await self.registry.wait(entry, until_finished=until_finished)
        if entry.body is None:
            return Answer(200, result_body(entry.rollout_id, entry.status))
        entry.fetched = True
        return Answer(200, entry.body)

    async def cancel(self, content: bytes) -> Answer:
        """``POST /rollout/cancel``"""
        try:
            wanted = parse_cancel(content)
        except Unprocessable as error:
            return _refusal(422, error.detail)
        dispositions = self.registry.cancel(ids=wanted.ids, prefix=wanted.prefix)
        await self.backend.cancel_rollouts(ids=wanted.ids, prefix=wanted.prefix, all=wanted.all)
        return Answer(200, dumps({"dispositions": dispositions}))

    def health(self) -> Answer:
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
            "regrade": getattr(self.backend, "supports_regrade", False) is True,
            "sdk": {"name": DISTRIBUTION, "version": sdk_version()},
        }
        return Answer(200, dumps(body))


def _refusal(status: int, detail: object, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, dumps({"detail": detail}), headers or {})
