"""The gateway: the HTTP server that a rollout's model calls go through, one per shard.

    POST /v1/rollouts/{rollout_id}/chat/completions    the policy: the run's model_path
    POST /v1/judges/{rollout_id}/chat/completions      the judge: [advanced] judge_model

The same models answer at …/responses in OpenAI's Responses dialect, and at …/v1/messages (or
…/messages) in Anthropic's, there with the bearer or as ``x-api-key``.

401 wrong bearer, 404 unknown rollout or path, 410 ended rollout, 400 not an acceptable request;
errors of the provider as ``exchange.py`` maps them.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import socket
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from osmosis.evaluation.budget import require_price
from osmosis.evaluation.gateway.asked import Place
from osmosis.evaluation.gateway.counted_model import CountedModel, OnUpstream
from osmosis.evaluation.gateway.dialects.chat_completions import ChatCompletions
from osmosis.evaluation.gateway.dialects.dialect import Dialect
from osmosis.evaluation.gateway.dialects.messages import Messages
from osmosis.evaluation.gateway.dialects.responses import Responses
from osmosis.evaluation.gateway.exchange import (
    GONE_STATUS,
    GONE_TEXT,
    Exchange,
    ModelRoute,
    error_response,
)
from osmosis.evaluation.gateway.model import Model
from osmosis.evaluation.gateway.openai_compatible import OpenAICompatible
from osmosis.evaluation.gateway.preflight import (
    STEP,
    check_model,
    model_fault,
    small_request,
)
from osmosis.evaluation.gateway.prices import Price, price_of
from osmosis.evaluation.gateway.replay import ReplayModel
from osmosis.evaluation.gateway.resolve import resolve
from osmosis.evaluation.gateway.response_cache import ResponseCache
from osmosis.evaluation.gateway.session import GatewaySession
from osmosis.evaluation.limit_log import LimitLog
from osmosis.evaluation.limits import CallLimiter
from osmosis.evaluation.plan import EvaluationPlan, ReplaySource, Sink, calls_at_once
from osmosis.evaluation.redaction import Redactor
from osmosis.wire.errors import RunFailed
from osmosis.wire.samples import ModelCall, Route

MAX_REQUEST_BYTES = 64 * 1024 * 1024
CLOSED_SESSIONS_KEPT = 10_000
SHUTDOWN_S = 1.0
CLIENT_KEEPALIVE_S = 120.0
RENAMES = "renames_max_tokens"
"""Described when the check has found it: the endpoint only knows ``max_completion_tokens``."""
BACKLOG = 4096
PATH = re.compile(
    r"^/v1/(rollouts|judges)/([^/?]+)/(chat/completions|responses|(?:v1/)?messages)/?(?:\?.*)?$"
)
DIALECTS: Mapping[str, Callable[[], Dialect]] = {
    "chat/completions": ChatCompletions,
    "responses": Responses,
    "messages": Messages,
    "v1/messages": Messages,
}


class Gateway:
    """Serves the run's policy model, and its judge model where one is configured."""

    def __init__(
        self,
        plan: EvaluationPlan,
        redactor: Redactor,
        sink: Sink,
        *,
        on_upstream: OnUpstream | None = None,
    ) -> None:
        self._plan = plan
        self._redactor = redactor
        self._sink = sink
        self._on_upstream = on_upstream
        store = plan.response_store if plan.advanced.cache else None
        self._cache = ResponseCache(store, redactor, sink) if store is not None else None
        self._sessions: dict[str, GatewaySession] = {}
        self._closed: OrderedDict[str, dict[Route, str | None]] = OrderedDict()
        self._routes: dict[Route, ModelRoute] = {}
        self._models: dict[Route, Model] = {}
        self._checks: dict[Route, dict[str, Any]] = {}
        self._limiters: dict[tuple[str, str], CallLimiter] = {}
        self._limit_logs: list[LimitLog] = []
        self._resolving = asyncio.Lock()
        self._server: web.Server | None = None
        self._listeners: list[asyncio.Server] = []
        self.port = 0
        self.root_url = ""
        self.on_call: Callable[[ModelCall], None] | None = None

    async def start(self) -> None:
        """Listen on a free loopback port."""
        loop = asyncio.get_running_loop()
        self._server = web.Server(
            self._handle,  # type: ignore[arg-type]  # the type lacks StreamResponse
            request_factory=_request,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=CLIENT_KEEPALIVE_S,
        )
        listener = await loop.create_server(self._server, "127.0.0.1", 0, backlog=BACKLOG)
        self._listeners.append(listener)
        self.port = listener.sockets[0].getsockname()[1]
        self.root_url = f"http://127.0.0.1:{self.port}"

    async def serve_on(self, listener: socket.socket) -> asyncio.Server:
        """Answer on one more listening socket, at the same port of another network."""
        if self._server is None:
            raise RuntimeError("start the gateway first")
        loop = asyncio.get_running_loop()
        served = await loop.create_server(self._server, sock=listener, backlog=BACKLOG)
        self._listeners.append(served)
        return served

    async def close(self) -> None:
        """End every session, the server and the connections upstream."""
        for session in list(self._sessions.values()):
            session.close()
        for listener in self._listeners:
            listener.close()
        if self._server is not None:
            self._server.pre_shutdown()
            await self._server.shutdown(SHUTDOWN_S)
        if self._cache is not None:
            await self._cache.close()
        for model in self._models.values():
            await model.close()
        for log in self._limit_logs:
            log.close()

    async def preflight(self) -> None:
        """Check the models before any row; raises RunFailed with one of the ``model_*`` kinds."""
        for route in self._configured_routes():
            used = await self._model_route(route)
            model = self._models[route]
            if not (model.scripted or isinstance(model, ReplayModel)):
                # OpenRouter tells the cost of each call itself.
                known = used.price is not None or model.provider == "openrouter"
                require_price(self._plan.advanced, model.path, known=known)
            if self._plan.checked is None:
                # The bare model: the check learns what it takes, and is no call of a sample.
                await self._check(model, route, used.price)
            else:
                self._recall_check(model, route, self._plan.checked)

    async def _check(self, model: Model, route: Route, price: Price | None) -> None:
        advanced, cache = self._plan.advanced, self._cache
        if cache is not None and await cache.knows(model, small_request(route, advanced)):
            self._sink.log("info", STEP, f"{model.path} answered this check in an earlier run.")
            return
        usage = await check_model(model, route, advanced, self._sink, self._redactor)
        if usage is None:
            return
        if not (model.scripted or isinstance(model, ReplayModel)):
            self._checks[route] = {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "cost_usd": price.cost_usd(usage) if price else usage.reported_cost_usd,
            }
        if cache is not None:
            cache.learn(model, small_request(route, advanced))

    def _recall_check(self, model: Model, route: Route, checked: Mapping[str, Any]) -> None:
        """Take over what another gateway of the run has found out (:meth:`describe`)."""
        described = checked if route == "policy" else checked.get("judge", {})
        if isinstance(model, OpenAICompatible):
            model.renames_max_tokens = described.get(RENAMES) is True
        if "check" in described:
            self._checks[route] = described["check"]

    async def probe(self, route: Route, kind: str) -> RunFailed | None:
        """Ask the model of ``route`` once, now, whose calls fail with ``kind``: what is wrong with
        it, or None."""
        await self._model_route(route)
        model = self._models[route]
        return await model_fault(model, route, kind, self._plan.advanced, self._redactor)

    def open_session(
        self, rollout_id: str, *, source_row: int = 0, run_index: int = 0
    ) -> GatewaySession:
        """Fresh URLs and bearers for one rollout execution, a try of the sample at that place."""
        session = GatewaySession(
            rollout_id,
            self.root_url,
            place=Place(source_row, run_index),
            redactor=self._redactor,
            with_judge=self._plan.advanced.judge_model is not None,
            on_call=self.on_call,
            on_close=self._forget,
        )
        self._sessions[rollout_id] = session
        return session

    async def room(self) -> None:
        """Wait while the calls of a new sample would only queue behind those that do already."""
        for limiter in self._limiters.values():
            await limiter.room()

    def describe(self) -> dict[str, Any]:
        """What the run's page shows of its models; complete once the pre-flight has run."""
        described = self._describe("policy")
        if self._plan.advanced.judge_model is not None:
            described["judge"] = self._describe("judge")
        return described

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        found = PATH.match(request.raw_path)
        if found is None:
            return error_response(
                ChatCompletions(),
                404,
                "There is only POST …/chat/completions, …/responses and …/v1/messages here.",
            )
        dialect = DIALECTS[found[3]]()
        route: Route = "policy" if found[1] == "rollouts" else "judge"
        session = self._sessions.get(found[2])
        bearers = session.bearers if session is not None else self._closed.get(found[2])
        bearer = bearers[route] if bearers is not None else None
        if bearer is None:
            text = _unknown(route, known=bearers is not None)
            return error_response(dialect, 404, text)
        given = dialect.credentials(request.headers)
        if not any(_same(credential, bearer) for credential in given):
            text = "The bearer is not the one of this rollout execution."
            return error_response(dialect, 401, text)
        if session is None:
            return error_response(dialect, GONE_STATUS, GONE_TEXT, code="session_closed")
        if request.method != "POST":
            return error_response(dialect, 405, "Only POST is answered here.")
        exchange = Exchange(
            session,
            route,
            request,
            dialect,
            model_path=self._path_of(route),
            model_route=self._model_route,
            cache=self._cache,
            advanced=self._plan.advanced,
            redactor=self._redactor,
        )
        return await exchange.run()

    async def _model_route(self, route: Route) -> ModelRoute:
        known = self._routes.get(route)
        if known is not None:
            return known
        async with self._resolving:
            if route not in self._routes:
                model = self._models.get(route)
                if model is None:
                    model = self._models[route] = await resolve(self._path_of(route), self._plan)
                await model.prepare()
                self._routes[route] = ModelRoute(
                    self._counted(model), self._limiter(model), await price_of(model.price_name)
                )
        return self._routes[route]

    def _counted(self, model: Model) -> Model:
        """Only what goes to a provider is counted."""
        if self._on_upstream is None or model.identity is None:
            return model
        return CountedModel(model, self._on_upstream)

    def _limiter(self, model: Model) -> CallLimiter:
        """Policy and judge under one key share one limiter."""
        limiter = self._limiters.get(model.limiter_key)
        if limiter is None:
            log = LimitLog(model.provider, self._sink)
            self._limit_logs.append(log)
            limiter = self._limiters[model.limiter_key] = CallLimiter(
                ceiling=calls_at_once(self._plan),
                max_retries=self._plan.advanced.max_retries,
                max_retry_s=self._plan.advanced.max_retry_s,
                listener=log,
            )
        return limiter

    def _configured_routes(self) -> tuple[Route, ...]:
        if self._plan.stored is not None:
            return ("judge",) if self._plan.advanced.judge_model is not None else ()
        return ("policy",) if self._plan.advanced.judge_model is None else ("policy", "judge")

    def _path_of(self, route: Route) -> str:
        if route == "judge" and self._plan.advanced.judge_model is not None:
            return self._plan.advanced.judge_model
        return self._plan.model_path

    def _describe(self, route: Route) -> dict[str, Any]:
        path = self._path_of(route)
        used = self._routes.get(route)
        if used is None:
            provider = path.partition("/")[0]
            scripted = provider == "scripted"
            return {"provider": provider, "model": path, "base_url": None, "scripted": scripted,
                    "price": None}  # fmt: skip
        return {
            "provider": used.model.provider,
            "model": path,
            "base_url": used.model.base_url,
            "scripted": used.model.scripted,
            "price": used.price.describe() if used.price else None,
            **({"check": self._checks[route]} if route in self._checks else {}),
            **({RENAMES: True} if _renames(self._models[route]) else {}),
            **(_replayed(used.model.source) if isinstance(used.model, ReplayModel) else {}),
        }

    def _forget(self, session: GatewaySession) -> None:
        if self._sessions.get(session.rollout_id) is session:
            del self._sessions[session.rollout_id]
        self._closed[session.rollout_id] = session.bearers
        if len(self._closed) > CLOSED_SESSIONS_KEPT:
            self._closed.popitem(last=False)


def _renames(model: Model) -> bool:
    return isinstance(model, OpenAICompatible) and model.renames_max_tokens


def _replayed(source: ReplaySource) -> dict[str, Any]:
    return {"replay": {"run": source.run_name, "model": source.model_path}}


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: Any,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """aiohttp's own, with room for conversations that hold images."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MAX_REQUEST_BYTES
    )


def _same(given: str, bearer: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), bearer.encode())


def _unknown(route: Route, *, known: bool) -> str:
    if known and route == "judge":
        return "The run has no judge. Set judge_model in [advanced]."
    return "There is no such rollout execution."
