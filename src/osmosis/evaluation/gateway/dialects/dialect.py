"""What the gateway asks of a dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from aiohttp import web

from osmosis.evaluation.gateway.chat import ChatRequest, Reply
from osmosis.evaluation.gateway.event_stream import EventStream
from osmosis.wire.samples import Route

BEARER = "Bearer "


class Dialect(Protocol):
    """The client's side of one call; an instance may remember the request it has read."""

    def credentials(self, headers: Mapping[str, str]) -> tuple[str, ...]:
        """What the client sent to be let in; one of them must be right."""
        ...

    def read(self, raw: bytes, route: Route) -> ChatRequest:
        """The request as a chat completion, or ``Refused``."""
        ...

    def answer(self, reply: Reply) -> bytes:
        """The body of a whole answer."""
        ...

    def events(self, request: web.BaseRequest) -> EventStream:
        """Where a model may write chat completion chunks; what the client gets is the dialect's."""
        ...

    def error(self, status: int, message: str, *, type: str, code: str | None) -> dict[str, object]:
        """The body of an error answer."""
        ...


def bearer_of(headers: Mapping[str, str]) -> str:
    given = headers.get("Authorization", "")
    return given[len(BEARER) :] if given.startswith(BEARER) else ""
