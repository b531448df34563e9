"""Stand-ins for the engine's neighbours: a rollout server of dialect P, a gateway, a sink.

The rollout server is a real HTTP server in this process. What a sample does stands in its
prompt, as words: ``reward 0.5``, ``crash``, ``block``, ``sleep 0.2`` and so on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from osmosis.evaluation.parts import Parts
from osmosis.evaluation.plan import EvaluationPlan
from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import RowItem
from osmosis.wire.samples import ModelCall, SampleRecord


def row(index: int, script: str = "reward 1", label: str | None = "yes") -> RowItem:
    return RowItem(
        row_index=index,
        source_row=index * 10,
        initial_messages=[{"role": "user", "content": script}],
        label=label,
    )


def rows(*scripts: str):
    return source([row(index, script) for index, script in enumerate(scripts)])


def source(items: Iterable[RowItem]):
    async def iterate() -> AsyncIterator[RowItem]:
        for item in items:
            yield item

    return iterate


def plan(tmp_path: Path, **more: Any) -> EvaluationPlan:
    values: dict[str, Any] = {
        "run_id": "r1",
        "name": "quiet-otter-01",
        "code_dir": tmp_path / "code",
        "work_dir": tmp_path / "work",
        "cache_dir": tmp_path / "cache",
        "rollout": "demo",
        "entrypoint": "main.py",
        "model_path": "fake/model",
        "batch_size": 4,
        "agent_workflow_timeout_s": 5.0,
        "grader_timeout_s": 5.0,
    }
    return EvaluationPlan(**(values | more))


class MemorySink:
    """Keeps everything. ``gate`` can hold records back, as a slow platform would."""

    def __init__(self) -> None:
        self.records: list[SampleRecord] = []
        self.stages: list[str] = []
        self.logs: list[tuple[str, str, str]] = []
        self.details: list[Any] = []
        self.artifacts: dict[tuple[str, str], bytes] = {}
        self.effective_values: dict[str, Any] = {}
        self.flushed = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.artifact_gate = asyncio.Event()
        self.artifact_gate.set()
        self.recorded = asyncio.Event()

    async def stage(self, stage: str) -> None:
        self.stages.append(stage)

    def log(self, level: str, step: str, message: str, details: Any = None) -> None:
        self.logs.append((level, step, message))
        self.details.append(details)

    async def record(self, record: SampleRecord) -> None:
        await self.gate.wait()
        self.records.append(record)
        self.recorded.set()

    async def artifact(self, rollout_id: str, relative_path: str, source: Path) -> None:
        await self.artifact_gate.wait()
        self.artifacts[rollout_id, relative_path] = source.read_bytes()

    async def effective(self, values: dict[str, Any]) -> None:
        self.effective_values = values

    async def flush(self) -> None:
        self.flushed = True

    def by_row(self) -> dict[int, SampleRecord]:
        return {record.row_index: record for record in self.records}

    def said(self, text: str) -> bool:
        return any(text in message for _, _, message in self.logs)


class FakeSession:
    def __init__(self, rollout_id: str) -> None:
        self.rollout_id = rollout_id
        self.chat_completions_url = f"http://127.0.0.1:9/v1/rollouts/{rollout_id}"
        self.api_key = "bearer-" + rollout_id
        self.judge_completions_url = None
        self.judge_api_key = None
        self.calls: list[ModelCall] = []
        self.kept_calls: str | None = None
        self.calls_in_flight = 0
        self.closed = False

    async def calls_ended(self, limit_s: float) -> None:
        return None

    def oldest_call(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True


@dataclass
class World:
    """Everything a test may steer or look at."""

    max_concurrent: int | None = 8
    preflight_error: RunFailed | None = None
    environment_error: RunFailed | None = None
    start_error: RunFailed | None = None
    failed_restarts: int = 0
    preflight_gate: asyncio.Event | None = None
    environment_gate: asyncio.Event | None = None
    start_gate: asyncio.Event | None = None
    artifact_root: Path = Path()
    model_base_url: str = "http://127.0.0.1/v1"
    dialect_c: bool = False
    c_schema: bool = False
    faults: list[RunFailed | None] = field(default_factory=list)
    """What the model says each time that it is asked in the middle of the run; then it works."""
    probes: list[tuple[str, str]] = field(default_factory=list)
    lives: list[FakeRollout] = field(default_factory=list)
    sessions: dict[str, FakeSession] = field(default_factory=dict)
    started_prompts: list[str] = field(default_factory=list)
    most_in_flight: int = 0
    gateway_closed: bool = False
    on_output: Any = None
    on_upstream: Callable[[int], None] | None = None
    """When set, each session makes one model call, and this is told of it."""
    used: dict[str, Any] | None = None
    """When set, each session makes one model call that used this much."""
    room: asyncio.Event | None = None
    """When set, new samples wait for it."""

    def parts(self) -> Parts:
        async def prepare(plan: EvaluationPlan, sink: Any) -> FakeEnvironment:
            if self.environment_gate:
                await self.environment_gate.wait()
            if self.environment_error:
                raise self.environment_error
            return FakeEnvironment()

        async def start(plan: Any, environment: Any, sink: Any, on_output: Any) -> FakeRollout:
            if self.start_gate:
                await self.start_gate.wait()
            if self.start_error:
                raise self.start_error
            if self.lives and self.failed_restarts:
                self.failed_restarts -= 1
                raise RunFailed("rollout_start_failed", "main.py ended before it answered.")
            self.on_output = on_output
            life = FakeRollout(self)
            await life.start()
            self.lives.append(life)
            return life

        return Parts(prepare, start, lambda plan, redactor, sink: FakeGateway(self))

    @property
    def all_stopped(self) -> bool:
        return self.gateway_closed and all(life.stopped for life in self.lives)


@dataclass
class FakeEnvironment:
    key: str = "k1"
    cached: bool = True
    sdk: str | None = "osmosis-platform 0.1.0"


class FakeGateway:
    def __init__(self, world: World) -> None:
        self.world = world
        self.on_call: Callable[[ModelCall], None] | None = None

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        self.world.gateway_closed = True

    async def preflight(self) -> None:
        if self.world.preflight_gate:
            await self.world.preflight_gate.wait()
        if self.world.preflight_error:
            raise self.world.preflight_error

    async def probe(self, route: str, kind: str) -> RunFailed | None:
        self.world.probes.append((route, kind))
        return self.world.faults.pop(0) if self.world.faults else None

    def open_session(self, rollout_id: str, **place: int) -> FakeSession:
        session = self.world.sessions[rollout_id] = FakeSession(rollout_id)
        if self.world.on_upstream is not None:
            self.world.on_upstream(1)
            session.calls = [
                ModelCall(model="fake/model", started_at=0.0, latency_s=0.0, http_status=200)
            ]
        if self.world.used is not None:
            call = model_call(**self.world.used)
            session.calls = [call]
            if self.on_call is not None:
                self.on_call(call)
        return session

    async def room(self) -> None:
        if self.world.room is not None:
            await self.world.room.wait()

    def describe(self) -> dict[str, Any]:
        return {
            "provider": "fake",
            "model": "fake-model",
            "base_url": self.world.model_base_url,
            "scripted": True,
        }


class FakeRollout:
    """One life of a rollout process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.exited = asyncio.Event()
        self.how = "still running"
        self.pid = 1
        self.max_concurrent = world.max_concurrent
        self.health = {"concurrency": {"max_concurrent": world.max_concurrent}}
        self.artifact_root = world.artifact_root
        self.open_socket = None
        self.results: dict[str, dict[str, Any]] = {}
        self.changed = asyncio.Condition()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.blocked = False
        self.unblocked = asyncio.Event()
        self.stopped = False
        self.cancelled_all = False
        self.admissions = 0

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/rollout", self.admit)
        app.router.add_get("/rollout/{id}/result", self.result)
        app.router.add_post("/rollout/cancel", self.cancel)
        app.router.add_get("/health", self.health_route)
        self.runner = web.AppRunner(app, shutdown_timeout=0.01)
        await self.runner.setup()
        self.site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await self.site.start()
        port = self.runner.addresses[0][1]
        self.base_url = f"http://127.0.0.1:{port}"

    def exit_description(self) -> str:
        return self.how

    async def stop(self, grace_s: float = 5.0) -> None:
        self.stopped = True
        await self.die("stopped")

    async def die(self, how: str) -> None:
        if self.exited.is_set():
            return
        self.how = how
        self.unblocked.set()
        for task in self.tasks.values():
            task.cancel()
        self.hang_up()
        self.exited.set()
        await self.runner.cleanup()

    def hang_up(self) -> None:
        server = self.runner.server
        if server is not None:
            for connection in list(server.connections):
                if connection.transport is not None:
                    connection.transport.abort()

    async def breathe(self) -> None:
        if self.blocked:
            await self.unblocked.wait()

    @property
    def running(self) -> int:
        return sum(not task.done() for task in self.tasks.values())

    async def health_route(self, request: web.Request) -> web.Response:
        await self.breathe()
        return web.json_response(
            {"concurrency": {"max_concurrent": 8, "running": self.running, "queued": 0}}
        )

    async def admit(self, request: web.Request) -> web.Response:
        await self.breathe()
        body = await request.json()
        script = body["initial_messages"][-1]["content"]
        if self.world.c_schema:
            detail = [{"loc": ["body", "completion_callback_url"], "msg": "Field required"}]
            return web.json_response({"detail": detail}, status=422)
        if self.world.dialect_c:
            return web.json_response({}, status=202)
        self.admissions += 1
        if "mute" in script:
            await self.unblocked.wait()
        if "refuse" in script:
            return web.json_response({"detail": "no such thing"}, status=422)
        if "busy" in script and self.admissions < 3:
            return web.json_response({}, status=429, headers={"Retry-After": "0.05"})
        self.world.started_prompts.append(script)
        rollout_id = body["rollout_id"]
        self.results[rollout_id] = {"status": "running"}
        self.tasks[rollout_id] = asyncio.create_task(self.perform(rollout_id, script, body))
        self.world.most_in_flight = max(self.world.most_in_flight, self.running)
        return web.json_response(
            {
                "rollout_id": rollout_id,
                "status": "queued",
                "polling_lease_token": "t-" + rollout_id,
                "result_wait_timeout_sec": 30.0,
                "polling_lease_timeout_sec": 120.0,
            },
            status=202,
        )

    async def perform(self, rollout_id: str, script: str, body: dict[str, Any]) -> None:
        words = script.split()
        argument = {word: words[at + 1] for at, word in enumerate(words[:-1])}
        session = self.world.sessions[rollout_id]
        if "print" in words:
            self.world.on_output(rollout_id, "I print " + argument["print"])
        if "call" in words:
            name = argument["call"]
            if name.endswith("_once"):
                name = name.removesuffix("_once")
                # Until the model has been asked and found to work again.
                if self.world.probes and not self.world.faults:
                    words = [word for word in words if word not in ("call", "fail")]
                    name = "good"
            session.calls.append(model_call(**CALLS[name]))
        if "sleep" in words:
            await asyncio.sleep(float(argument["sleep"]))
        if "crash" in words:
            await self.die("exit code 7")
            return
        if "killed" in words:
            await self.die("killed by SIGKILL")
            return
        if "hide" in words:
            self.hang_up()
            await self.site.stop()
            await self.unblocked.wait()
        if "block" in words:
            self.blocked = True
            await self.unblocked.wait()
        if "deaf" in words:
            while not self.exited.is_set():
                try:
                    await self.exited.wait()
                except asyncio.CancelledError:
                    if self.exited.is_set():
                        raise
        if "empty" in words:
            (self.artifact_root / rollout_id).mkdir()
        if "artifact" in words:
            place = self.artifact_root / rollout_id / "artifacts"
            place.mkdir(parents=True)
            (place / "note.txt").write_text("kept s3cret-value")
            (place / "link").symlink_to("/etc/passwd")
            if "named" in argument:
                (place / argument["named"]).write_text("x")
        sample: dict[str, Any] | None = {
            "messages": [
                *body["initial_messages"],
                {"role": "assistant", "content": "done s3cret-value"},
            ],
            "label": body["label"],
            "reward": float(argument.get("reward", 1)),
            "remove_sample": "remove" in words,
            "metrics": {"turns": 2, "bad": "x", "flag": True},
            "extra_fields": {},
        }
        result: dict[str, Any] = {"status": "success"}
        if "nosample" in words:
            sample = None
        if "noreward" in words or "remove" in words:
            sample["reward"] = None
        if "fail" in words:
            result = {
                "status": "failure",
                "err_category": argument["fail"],
                "err_message": "it broke",
            }
            sample = sample if "graded" in words else None
        if "expired" in words and self.admissions < 2:
            result = {"status": "failure", "err_category": "lease_expired"}
            sample = None
        self.results[rollout_id] = result | {"sample": sample}
        async with self.changed:
            self.changed.notify_all()

    async def result(self, request: web.Request) -> web.Response:
        await self.breathe()
        rollout_id = request.match_info["id"]
        if request.headers.get("X-Osmosis-Rollout-Lease") != "t-" + rollout_id:
            return web.json_response({"detail": "lease"}, status=403)
        if rollout_id not in self.results:
            return web.json_response({"detail": "unknown"}, status=404)
        async with self.changed:
            await self.changed.wait_for(lambda: self.results[rollout_id]["status"] != "running")
        await self.breathe()
        empty = {"sample": None, "err_message": None, "err_category": None}
        body = {"rollout_id": rollout_id, **empty, **self.results[rollout_id]}
        text = json.dumps(body).replace(": -5.0", ": NaN")
        return web.Response(text=text, content_type="application/json")

    async def cancel(self, request: web.Request) -> web.Response:
        await self.breathe()
        body = await request.json()
        self.cancelled_all = self.cancelled_all or bool(body.get("all"))
        ids = list(self.tasks) if body.get("all") else body["ids"]
        for rollout_id in ids:
            if (task := self.tasks.get(rollout_id)) and not task.done():
                task.cancel()
                self.results[rollout_id] = {"status": "cancelled"}
        async with self.changed:
            self.changed.notify_all()
        return web.json_response({"dispositions": {}})


CALLS: dict[str, dict[str, Any]] = {
    "good": {"prompt_tokens": 10, "completion_tokens": 5, "cost_usd": 0.01},
    "unpriced": {"prompt_tokens": 10, "completion_tokens": 5},
    "kept": {"prompt_tokens": 10, "completion_tokens": 5, "cached": True, "upstream_requests": 0},
    "limited": {"http_status": 429, "error_kind": "rate_limit", "error_message": "slow down"},
    "unreachable": {"http_status": 502, "error_kind": "connection", "error_message": "refused"},
    "judged": {"route": "judge", "cost_usd": 0.01},
    "spent": {"route": "judge", "http_status": 429, "error_kind": "quota"},
    "rejected": {"http_status": 401, "error_kind": "auth", "error_message": "bad key"},
}


def model_call(**more: Any) -> ModelCall:
    """A call that begins now and is answered at once."""
    values = {
        "model": "fake-model",
        "started_at": time.time(),
        "latency_s": 0.0,
        "http_status": 200,
    }
    return ModelCall(**(values | more))


async def until(condition, *, limit_s: float = 10.0) -> None:
    """Poll ``condition`` until it is true; the deadline makes a hang a failure."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - the condition is plain state of the test
            await asyncio.sleep(0.005)
