"""A model provider on loopback whose answers a test decides, and the gateway before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from osmosis.evaluation.gateway import Gateway, GatewaySession
from osmosis.evaluation.plan import EvaluationPlan
from osmosis.evaluation.redaction import Redactor
from osmosis.workspace.advanced import AdvancedSection

KEY = "sk-canary-4711"
ROLLOUT = "0123456789abcdef0123456789abcdef"
HELLO = [{"role": "user", "content": "hello"}]
Answer = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


def completion(content: Any = "hi there", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    choice = {"index": 0, "message": message, "finish_reason": more.pop("finish_reason", "stop")}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "the-real-name",
        "choices": [choice],
        "usage": usage,
        **more,
    }


def says(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    async def answer(request: web.Request, sent: dict[str, Any]) -> web.Response:
        return web.json_response(body, status=status, headers=headers)

    return answer


def fails(status: int, message: str = "no", headers: dict[str, str] | None = None) -> Answer:
    return says({"error": {"message": message, "type": "t", "code": None}}, status, headers)


def streams(*parts: bytes, gate: asyncio.Event | None = None, broken: bool = False) -> Answer:
    """Sends the parts one by one; waits for ``gate`` after the first."""

    async def answer(request: web.Request, sent: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for index, part in enumerate(parts):
            if index == 1 and gate is not None:
                await gate.wait()
            await response.write(part)
        if broken and request.transport is not None:
            request.transport.abort()
        return response

    return answer


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "the-real-name"}
    return b"data: " + orjson.dumps({**body, "choices": choices, **more}) + b"\n\n"


DONE = b"data: [DONE]\n\n"
WHOLE_STREAM = (
    chunk({"role": "assistant", "content": "one"}),
    chunk({"content": " two"}),
    chunk({}, "stop"),
    chunk(None, usage={"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}),
    DONE,
)


@dataclass
class Upstream:
    """``answers`` are used up one by one; the last one stays."""

    base_url: str = ""
    answers: list[Answer] = field(default_factory=lambda: [says(completion())])
    models: list[str] | None = field(default_factory=lambda: ["served-model"])
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    broken_off: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def hits(self) -> int:
        return len(self.bodies)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("Authorization"))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        try:
            return await answer(request, body)
        except asyncio.CancelledError:
            self.broken_off.set()
            raise
        finally:
            self.in_flight -= 1

    async def list_models(self, request: web.Request) -> web.Response:
        if self.models is None:
            return web.json_response({"detail": "Not Found"}, status=404)
        return web.json_response({"data": [{"id": name} for name in self.models]})


class Log:
    """The part of a Sink that the gateway uses."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def log(self, level: str, step: str, message: str, details: Any = None) -> None:
        self.lines.append((level, message))


@dataclass
class Bench:
    """A gateway with one open session, and a client that speaks to it."""

    gateway: Gateway
    session: GatewaySession
    http: aiohttp.ClientSession
    log: Log

    async def post(self, body: Any = None, *, judge: bool = False, **more: Any) -> Any:
        """(status, parsed answer or raw text, headers)"""
        async with self.open(body, judge=judge, **more) as response:
            raw = await response.read()
            is_json = response.content_type == "application/json"
            return response.status, orjson.loads(raw) if is_json else raw, response.headers

    def open(self, body: Any = None, *, judge: bool = False, **more: Any) -> Any:
        if body is None or isinstance(body, dict):
            body = {"model": "whatever", "messages": HELLO, **(body or {}), **more}
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        session = self.session
        url = session.judge_completions_url if judge else session.chat_completions_url
        key = session.judge_api_key if judge else session.api_key
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        return self.http.post(f"{url}/chat/completions", data=BytesIO(data), headers=headers)


def make_plan(
    root: Path, model_path: str, *, advanced: dict[str, Any] | None = None, **more: Any
) -> EvaluationPlan:
    return EvaluationPlan(
        run_id="run",
        name="run",
        code_dir=root,
        work_dir=root,
        cache_dir=root,
        rollout="r",
        entrypoint="main.py",
        model_path=model_path,
        advanced=AdvancedSection(**(advanced or {})),
        **more,
    )


def redactor_of(plan: EvaluationPlan) -> Redactor:
    return Redactor(plan.secrets.values())


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    """Wait for something that another task is about to do."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  # what is awaited has no event
            await asyncio.sleep(0.002)
