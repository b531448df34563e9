"""The rooms an evaluation is assembled from, as the engine sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from osmosis.evaluation.plan import EvaluationPlan, Sink
from osmosis.evaluation.redaction import Redactor
from osmosis.rollout.connection_pool import OpenSocket
from osmosis.wire.errors import RunFailed
from osmosis.wire.samples import ModelCall, Route

OnOutput = Callable[[str, str], None]
"""Called with (rollout id, printed text)."""


class EnvironmentPart(Protocol):
    """The built environment of the rollout."""

    key: str
    cached: bool
    sdk: str | None


class RolloutPart(Protocol):
    """A running rollout process."""

    base_url: str
    open_socket: OpenSocket | None
    """Makes the sockets that reach ``base_url``; None: those of this process do."""
    health: dict[str, Any]
    max_concurrent: int | None
    artifact_root: Path
    exited: asyncio.Event

    def exit_description(self) -> str: ...

    async def stop(self, grace_s: float = ...) -> None: ...


class SessionPart(Protocol):
    """What one rollout execution may call, and what it called."""

    @property
    def chat_completions_url(self) -> str: ...
    @property
    def api_key(self) -> str: ...
    @property
    def judge_completions_url(self) -> str | None: ...
    @property
    def judge_api_key(self) -> str | None: ...
    @property
    def calls(self) -> Sequence[ModelCall]: ...
    @property
    def kept_calls(self) -> str | None: ...
    @property
    def calls_in_flight(self) -> int: ...

    async def calls_ended(self, limit_s: float) -> None: ...

    def oldest_call(self) -> tuple[Route, float] | None: ...

    def close(self) -> None: ...


class GatewayPart(Protocol):
    """The model gateway of a shard. ``on_call`` is told of every call that has ended."""

    on_call: Callable[[ModelCall], None] | None

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def preflight(self) -> None: ...

    async def probe(self, route: Route, kind: str) -> RunFailed | None: ...

    def open_session(
        self, rollout_id: str, *, source_row: int = 0, run_index: int = 0
    ) -> SessionPart: ...

    async def room(self) -> None: ...

    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Parts:
    """How to make each of them. Tests bring their own."""

    prepare_environment: Callable[[EvaluationPlan, Sink], Awaitable[Any]]
    start_rollout: Callable[[EvaluationPlan, Any, Sink, OnOutput], Awaitable[RolloutPart]]
    make_gateway: Callable[[EvaluationPlan, Redactor, Sink], GatewayPart]
