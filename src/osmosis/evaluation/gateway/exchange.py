"""One model call through the gateway, from the client's request to its record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web

from osmosis.evaluation.gateway.asked import Asked
from osmosis.evaluation.gateway.chat import ChatRequest, Reply, Usage
from osmosis.evaluation.gateway.dialects.dialect import Dialect
from osmosis.evaluation.gateway.event_stream import ClientGone, EventStream
from osmosis.evaluation.gateway.failures import (
    Refused,
    TextRedactor,
    UpstreamFailure,
    shown,
)
from osmosis.evaluation.gateway.json_codec import dumps
from osmosis.evaluation.gateway.kept_calls import KeptFailure
from osmosis.evaluation.gateway.model import Model
from osmosis.evaluation.gateway.prices import Price
from osmosis.evaluation.gateway.replay import ReplayModel
from osmosis.evaluation.gateway.response_cache import ResponseCache
from osmosis.evaluation.gateway.session import GatewaySession
from osmosis.evaluation.gateway.synthetic_stream import tell
from osmosis.evaluation.limits import CallLimiter, CallMeter
from osmosis.evaluation.wall_clock import wall_clock
from osmosis.wire.errors import RunFailed
from osmosis.wire.samples import ModelCall, Route
from osmosis.workspace.advanced import AdvancedSection

CLIENT_CLOSED_STATUS = 499
GONE_STATUS = 410
GONE_TEXT = "This rollout execution has ended; its model endpoint is closed."
CLIENT_GONE_TEXT = "The client went away."
IN_QUEUE_TEXT = " The call was still waiting for the provider's limit."
JSON_HEADERS = {"Content-Type": "application/json"}
FINAL_HEADERS = {"Content-Type": "application/json", "x-should-retry": "false"}
"""Client libraries retry 409, 429 and 5xx by themselves unless told not to."""


@dataclass(frozen=True)
class ModelRoute:
    """A resolved model, ready for calls, with the limiter of its key and its price."""

    model: Model
    limiter: CallLimiter
    price: Price | None


class Exchange:
    """State of one call. :meth:`run` always leaves a record in the session."""

    def __init__(
        self,
        session: GatewaySession,
        route: Route,
        request: web.BaseRequest,
        dialect: Dialect,
        *,
        model_path: str,
        model_route: Callable[[Route], Awaitable[ModelRoute]],
        cache: ResponseCache | None,
        advanced: AdvancedSection,
        redactor: TextRedactor,
    ) -> None:
        self._session = session
        self._route: Route = route
        self._request = request
        self._dialect = dialect
        self._model_path = model_path
        self._model_route = model_route
        self._cache = cache
        self._advanced = advanced
        self._redactor = redactor
        self._meter = CallMeter()
        self._used: ModelRoute | None = None
        self._out: EventStream | None = None
        self._asked: Asked | None = None
        self._reply: Reply | None = None
        self._status = 200
        self._error: tuple[str, str] | None = None

    async def run(self) -> web.StreamResponse:
        started_at, began = wall_clock.now(), time.perf_counter()
        task = self._request.task
        number = self._session.begin(task, self._route)
        try:
            return await self._answer()
        except asyncio.CancelledError:
            if not self._session.closed:
                self._note_gone(CLIENT_CLOSED_STATUS, "client_disconnected", CLIENT_GONE_TEXT)
                raise
            task.uncancel()
            self._note_gone(GONE_STATUS, "session_closed", GONE_TEXT)
            return await self._fail_late(GONE_STATUS, GONE_TEXT, code="session_closed")
        except ClientGone:
            self._note_gone(CLIENT_CLOSED_STATUS, "client_disconnected", CLIENT_GONE_TEXT)
            raise asyncio.CancelledError from None
        except Exception as error:  # one call's fault of ours must not cost the connection
            text = shown(f"{type(error).__name__}: {error}", self._redactor)
            self._note(500, "internal", text)
            return await self._fail_late(500, f"The gateway failed: {text}")
        finally:
            latency_s = time.perf_counter() - began - self._meter.queue_s
            call = self._record(started_at, max(0.0, latency_s))
            self._keep(call)
            self._session.end(number, task, call)

    async def _answer(self) -> web.StreamResponse:
        try:
            raw = await self._request.read()
            chat = self._dialect.read(raw, self._route)
        except Refused as refusal:
            self._note(refusal.status, "bad_request", refusal.message)
            return self._error_response(
                refusal.status, refusal.message, type="invalid_request_error", code=refusal.code
            )
        except web.HTTPRequestEntityTooLarge:
            self._note(413, "bad_request", "The request body is too large.")
            return self._error_response(413, "The request body is too large.")
        try:
            used = self._used = await self._model_route(self._route)
        except RunFailed as failure:
            text = shown(failure.body()["message"], self._redactor)
            self._note(502, "internal", text)
            return self._error_response(502, text, type=failure.kind)
        if self._route == "policy":
            chat.apply_defaults(self._advanced)
        reasoning = self._session.reasoning[self._route]
        reasoning.restore(chat.body["messages"])
        self._asked = chat.asked = self._session.ask(chat)
        answer = await (self._stream if chat.stream else self._whole)(chat, used)
        if self._reply is not None:
            reasoning.keep(self._reply.message)
        return answer

    async def _whole(self, chat: ChatRequest, used: ModelRoute) -> web.StreamResponse:
        try:
            reply = await self._recall(chat, used)
            if reply is None:
                reply = await used.limiter.run(lambda: used.model.complete(chat), self._meter)
        except UpstreamFailure as failure:
            return self._failed(failure)
        self._reply = reply
        return web.Response(body=self._dialect.answer(reply), headers=JSON_HEADERS)

    async def _stream(self, chat: ChatRequest, used: ModelRoute) -> web.StreamResponse:
        async with self._dialect.events(self._request) as out:
            self._out = out
            try:
                reply = await self._recall(chat, used)
                if reply is None:
                    reply = await used.limiter.run(
                        lambda: used.model.stream(chat, out), self._meter
                    )
                else:
                    await tell(reply, out)
                self._reply = reply
            except UpstreamFailure as failure:
                answer = self._failed(failure)
                if not out.committed:
                    return answer
                await out.send_error(self._error_body(failure))
            return await out.finish()

    async def _recall(self, chat: ChatRequest, used: ModelRoute) -> Reply | None:
        """The answer of an earlier run, where the run wants those. No limit is on them."""
        if isinstance(used.model, ReplayModel):
            return await used.model.complete(chat)
        if self._cache is None or self._asked is None:
            return None
        return await self._cache.find(self._asked, used.model, chat.requested_model)

    async def _fail_late(
        self, status: int, message: str, code: str | None = None
    ) -> web.StreamResponse:
        """An error answer, whether or not a stream has begun."""
        if self._out is None or self._out.response is None:
            return self._error_response(status, message, code=code)
        body = self._dialect.error(status, message, type="gateway_error", code=code)
        with suppress(ClientGone):
            await self._out.send_error(body)
            await self._out.finish()
        return self._out.response

    def _failed(self, failure: UpstreamFailure) -> web.Response:
        self._note(failure.client_status, failure.kind, shown(failure.message, self._redactor))
        body = dumps(self._error_body(failure))
        return web.Response(status=failure.client_status, body=body, headers=FINAL_HEADERS)

    def _error_body(self, failure: UpstreamFailure) -> dict[str, object]:
        return self._dialect.error(
            failure.client_status,
            shown(failure.message, self._redactor),
            type=failure.type or failure.kind,
            code=failure.code,
        )

    def _error_response(
        self, status: int, message: str, *, type: str = "gateway_error", code: str | None = None
    ) -> web.Response:
        return error_response(self._dialect, status, message, type=type, code=code)

    def _note(self, status: int, kind: str, message: str) -> None:
        self._status = status
        self._error = (kind, message)

    def _keep(self, call: ModelCall) -> None:
        """Keep request and answer for a replay, and for the cache."""
        asked, used, reply = self._asked, self._used, self._reply
        if asked is None:
            return
        if call.error_kind is not None:
            self._session.unanswered(self._route, asked)
        cost_usd = call.saved_usd if call.cached or call.replayed else call.cost_usd
        self._session.kept.keep(
            self._route,
            asked,
            reply,
            latency_s=call.latency_s,
            cost_usd=cost_usd,
            failure=_kept_failure(call),
        )
        if self._cache is not None and used and reply and call.error_kind is None:
            self._cache.keep(
                asked, used.model, reply, latency_s=call.latency_s, cost_usd=call.cost_usd
            )

    def _note_gone(self, status: int, kind: str, message: str) -> None:
        self._note(status, kind, message + IN_QUEUE_TEXT if self._meter.queued else message)

    def _record(self, started_at: float, latency_s: float) -> ModelCall:
        used, reply = self._used, self._reply
        usage = reply.usage if reply else Usage()
        scripted = used is not None and used.model.scripted
        kind, message = self._error or (None, None)
        recalled = reply.recalled if reply else None
        return ModelCall(
            route=self._route,
            model=self._model_path,
            started_at=started_at,
            latency_s=recalled.latency_s if recalled else latency_s,
            queue_s=self._meter.queue_s,
            http_status=self._status,
            streamed=self._out is not None,
            scripted=scripted,
            cached=recalled is not None and recalled.source == "cache",
            replayed=recalled is not None and recalled.source == "replay",
            upstream_requests=0 if recalled else self._meter.upstream_requests,
            retries=self._meter.retries or None,
            ended_in_queue=self._meter.queued or None,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cost_usd=_cost_usd(used, reply) if used else None,
            saved_usd=recalled.cost_usd if recalled else None,
            finish_reason=reply.finish_reason if reply else None,
            error_kind=kind,
            error_message=message,
        )


def _kept_failure(call: ModelCall) -> KeptFailure | None:
    if call.error_kind is None:
        return None
    return KeptFailure(call.error_kind, call.http_status, call.error_message or "")


def error_response(
    dialect: Dialect,
    status: int,
    message: str,
    *,
    type: str = "gateway_error",
    code: str | None = None,
) -> web.Response:
    """An error answer in the client's dialect, final for its library's own retries."""
    body = dumps(dialect.error(status, message, type=type, code=code))
    return web.Response(status=status, body=body, headers=FINAL_HEADERS)


def _cost_usd(used: ModelRoute, reply: Reply | None) -> float | None:
    if used.model.scripted:
        return 0.0
    if reply is None:
        return None
    if reply.recalled is not None:
        return 0.0
    if used.model.provider == "openrouter" and reply.usage.reported_cost_usd is not None:
        return reply.usage.reported_cost_usd
    return used.price.cost_usd(reply.usage) if used.price else None
