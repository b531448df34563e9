"""OpenAI's chat completions: the gateway's own language, so nothing is translated."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from osmosis.evaluation.gateway.chat import ChatRequest, Reply
from osmosis.evaluation.gateway.dialects.dialect import bearer_of
from osmosis.evaluation.gateway.event_stream import EventStream
from osmosis.evaluation.gateway.json_codec import dumps
from osmosis.wire.samples import Route


class ChatCompletions:
    """``POST …/chat/completions``"""

    __slots__ = ()

    def credentials(self, headers: Mapping[str, str]) -> tuple[str, ...]:
        return (bearer_of(headers),)

    def read(self, raw: bytes, route: Route) -> ChatRequest:
        return ChatRequest.parse(raw, route)

    def answer(self, reply: Reply) -> bytes:
        return dumps(reply.body)

    def events(self, request: web.BaseRequest) -> EventStream:
        return EventStream(request)

    def error(self, status: int, message: str, *, type: str, code: str | None) -> dict[str, object]:
        """OpenAI's shape, and ``detail`` for older clients."""
        return {"error": {"message": message, "type": type, "code": code}, "detail": message}
