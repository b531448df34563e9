"""The runner API of a platform, in memory, with the rules of leases. For tests of the worker."""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import tarfile
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from osmosis.wire.runner import LEASE_HEADER, EvaluationSpec, LostCalls, RowItem
from osmosis.wire.samples import SampleRecord

TOKEN = "worker-token"


@dataclass
class FakeRun:
    """One run as the platform would keep it."""

    spec: EvaluationSpec
    rows: list[RowItem]
    code: bytes
    status: str = "pending"
    lease_token: str | None = None
    lease_until: float = 0.0
    claims: int = 0
    stop_requested: bool = False
    records: dict[tuple[int, int], SampleRecord] = field(default_factory=dict)
    duplicates: int = 0
    logs: list[dict[str, Any]] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    heartbeats: list[dict[str, Any]] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    lost_calls: dict[str, int] = field(default_factory=dict)
    finish: dict[str, Any] | None = None

    @property
    def ended(self) -> bool:
        return self.status in ("finished", "failed", "stopped")


class FakePlatform:
    """``async with FakePlatform() as platform``; faults are switched by its attributes."""

    def __init__(self, lease_s: float = 3.0) -> None:
        self.lease_s = lease_s
        self.clock_ahead_s = 0.0
        self.runs: dict[str, FakeRun] = {}
        self.away = False
        self.lose_acks = 0
        self.refuse_bulk = False
        self.refuse_finish = False
        self.finish_asked = 0
        self.hold_records: asyncio.Event | None = None
        self.held = 0
        self.batches: list[int] = []
        self.break_rows_after: int | None = None
        self.rows_asked: list[tuple[int, int]] = []
        self.rows_sent = 0

    async def __aenter__(self) -> FakePlatform:
        app = web.Application(client_max_size=2**29, middlewares=[self._guard])
        app.router.add_post("/api/runner/claim", self._claim)
        base = "/api/runner/runs/{id}"
        app.router.add_post(base + "/heartbeat", self._heartbeat)
        app.router.add_get(base + "/code", self._code)
        app.router.add_get(base + "/rows", self._rows)
        app.router.add_get(base + "/done", self._done)
        app.router.add_post(base + "/records", self._records)
        app.router.add_post(base + "/logs", self._logs)
        app.router.add_put(base + "/artifacts/{rollout_id}/{path:.+}", self._artifact)
        app.router.add_post(base + "/finish", self._finish)
        app.router.add_post(base + "/lost-calls", self._lost_calls)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def submit(self, *scripts: str, n: int = 1, **more: Any) -> FakeRun:
        run_id = secrets.token_hex(6)
        values: dict[str, Any] = {
            "run_id": run_id, "name": f"run-{run_id}", "workspace_id": "w1", "generation": 1,
            "commit_sha": "c" * 40, "rollout": "demo", "entrypoint": "main.py",
            "model_path": "openai/model", "n": n, "batch_size": 4, "pass_threshold": 1.0,
            "agent_workflow_timeout_s": 30.0, "grader_timeout_s": 30.0,
            "selected_rows": len(scripts), "total_rows": len(scripts), "dataset_name": "d",
            "secrets": {"KEY": "s3cret-value"},
        }  # fmt: skip
        rows = [
            RowItem(
                row_index=index,
                source_row=index,
                initial_messages=[{"role": "user", "content": script}],
                label="yes",
            )
            for index, script in enumerate(scripts)
        ]
        run = FakeRun(EvaluationSpec(**(values | more)), rows, code_tar())
        self.runs[run_id] = run
        return run

    # --- routes ------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.away:
            return web.json_response({"message": "starting"}, status=503)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"message": "who are you?"}, status=401)
        if "id" in request.match_info and not request.path.endswith("/lost-calls"):
            run = self.runs[request.match_info["id"]]
            lease = request.headers.get(LEASE_HEADER)
            if run.ended or lease != run.lease_token or time.monotonic() > run.lease_until:
                return web.json_response({"code": "LEASE_LOST", "message": "lost"}, status=409)
        return await handler(request)

    async def _claim(self, request: web.Request) -> web.Response:
        wait_s = (await request.json())["wait_s"]
        deadline = time.monotonic() + wait_s
        # A worker that hung up must be given nothing.
        while time.monotonic() < deadline and request.transport is not None:
            for run in self.runs.values():
                free = run.status == "pending" or time.monotonic() > run.lease_until
                if not run.ended and free:
                    run.status, run.claims = "running", run.claims + 1
                    run.lease_token = secrets.token_hex(8)
                    run.lease_until = time.monotonic() + self.lease_s
                    spec = run.spec.model_copy(update={"resume": run.claims > 1})
                    body = {
                        "lease_token": run.lease_token,
                        "lease_s": self.lease_s,
                        "spec": spec.model_dump(),
                        "now": time.time() + self.clock_ahead_s,
                    }
                    return web.json_response(body)
            await asyncio.sleep(0.02)
        return web.Response(status=204)

    async def _heartbeat(self, request: web.Request) -> web.Response:
        run = self.runs[request.match_info["id"]]
        body = await request.json()
        run.lease_until = time.monotonic() + self.lease_s
        run.heartbeats.append(body)
        if body["stage"] and run.stages[-1:] != [body["stage"]]:
            run.stages.append(body["stage"])
        return web.json_response({"stop": run.stop_requested, "lease_s": self.lease_s})

    async def _code(self, request: web.Request) -> web.Response:
        return web.Response(body=self.runs[request.match_info["id"]].code)

    async def _rows(self, request: web.Request) -> web.StreamResponse:
        first, step = int(request.query.get("first", 0)), int(request.query.get("step", 1))
        self.rows_asked.append((first, step))
        response = web.StreamResponse()
        await response.prepare(request)
        for number, row in enumerate(self.runs[request.match_info["id"]].rows[first::step]):
            if number == self.break_rows_after:
                request.transport.abort()
                break
            await response.write(row.model_dump_json().encode() + b"\n")
            self.rows_sent += 1
        return response

    async def _done(self, request: web.Request) -> web.Response:
        keys = self.runs[request.match_info["id"]].records
        return web.Response(text="".join(json.dumps(key) + "\n" for key in sorted(keys)))

    async def _records(self, request: web.Request) -> web.Response:
        run = self.runs[request.match_info["id"]]
        if self.hold_records is not None:
            self.held += 1
            await self.hold_records.wait()
        lines = (await request.read()).splitlines()
        records = [SampleRecord.model_validate_json(line) for line in lines]
        if self.refuse_bulk and any(record.trajectory for record in records):
            return web.json_response({"message": "too large"}, status=413)
        accepted = 0
        for record in records:
            key = (record.row_index, record.run_index)
            if key in run.records:
                run.duplicates += 1
            else:
                run.records[key] = record
                accepted += 1
        self.batches.append(len(records))
        if self.lose_acks > 0:
            self.lose_acks -= 1
            request.transport.abort()
        return web.json_response(
            {
                "accepted": accepted,
                "duplicates": len(records) - accepted,
                "stop": run.stop_requested,
            }
        )

    async def _logs(self, request: web.Request) -> web.Response:
        self.runs[request.match_info["id"]].logs += (await request.json())["entries"]
        return web.json_response({})

    async def _artifact(self, request: web.Request) -> web.Response:
        info = request.match_info
        self.runs[info["id"]].artifacts[info["path"]] = await request.read()
        return web.json_response({})

    async def _finish(self, request: web.Request) -> web.Response:
        run = self.runs[request.match_info["id"]]
        self.finish_asked += 1
        if self.refuse_finish:
            return web.json_response({"message": "starting"}, status=503)
        run.finish = await request.json()
        run.status = run.finish["status"]
        return web.json_response({})

    async def _lost_calls(self, request: web.Request) -> web.Response:
        report = LostCalls.model_validate_json(await request.read())
        self.runs[request.match_info["id"]].lost_calls[report.shard_id] = report.calls
        return web.json_response({})


def code_tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        content = b"print('hello')\n"
        info = tarfile.TarInfo("rollouts/demo/main.py")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()
