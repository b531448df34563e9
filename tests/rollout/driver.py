"""A controller for tests: drives a rollout server in this process, over its real routes."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import httpx
import orjson

from osmosis.rollout import AgentWorkflow, Grader, LocalBackend
from osmosis.rollout.server import create_rollout_server

FINAL = ("success", "failure", "cancelled")
ADMISSION = {"initial_messages": [{"role": "user", "content": "q"}], "label": "L"}

_numbers = itertools.count()


async def echo(ctx) -> list[dict[str, Any]]:
    return [*ctx.prompt, {"role": "assistant", "content": "a"}]


async def reward_one(ctx) -> None:
    ctx.set_reward(1.0)


def workflow_of(run) -> type[AgentWorkflow]:
    class Workflow(AgentWorkflow):
        async def run(self, ctx):
            return await run(ctx)

    return Workflow


def grader_of(grade) -> type[Grader]:
    class TheGrader(Grader):
        async def grade(self, ctx):
            await grade(ctx)

    return TheGrader


class Driver:
    def __init__(self, run, grade, root: Path, *, backend=None, config=None, **options) -> None:
        self.root = root
        self.backend = backend or LocalBackend(
            workflow=workflow_of(run),
            workflow_config=config,
            grader=grader_of(grade) if grade else None,
        )
        self.app = create_rollout_server(backend=self.backend, **options)
        transport = httpx.ASGITransport(self.app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://rollout", timeout=30)
        self.leases: dict[str, str] = {}

    async def close(self) -> None:
        await self.http.post("/rollout/cancel", json={"all": True})
        await self.http.aclose()

    async def post(self, **body: Any) -> httpx.Response:
        given = {**ADMISSION, "rollout_id": f"r{next(_numbers)}", **body}
        given.setdefault("chat_completions_url", "http://model/v1")
        return await self.http.post("/rollout", content=orjson.dumps(given))

    async def start(self, **body: Any) -> str:
        answer = await self.post(**body)
        assert answer.status_code == 202, answer.text
        admitted = answer.json()
        self.leases[admitted["rollout_id"]] = admitted["polling_lease_token"]
        return admitted["rollout_id"]

    async def poll(self, rollout_id: str, query: str = "") -> dict[str, Any]:
        answer = await self.raw_poll(rollout_id, query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def raw_poll(self, rollout_id: str, query: str = "") -> httpx.Response:
        headers = {"X-Osmosis-Rollout-Lease": self.leases[rollout_id]}
        return await self.http.get(f"/rollout/{rollout_id}/result{query}", headers=headers)

    async def result(self, rollout_id: str) -> dict[str, Any]:
        while True:
            body = await self.poll(rollout_id)
            if body["status"] in FINAL:
                return body

    async def run(self, **body: Any) -> dict[str, Any]:
        return await self.result(await self.start(**body))

    async def cancel(self, **body: Any) -> dict[str, str]:
        answer = await self.http.post("/rollout/cancel", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["dispositions"]

    async def health(self) -> dict[str, Any]:
        return (await self.http.get("/health")).json()

    def trajectory(self, rollout_id: str) -> dict[str, Any]:
        return orjson.loads((self.root / rollout_id / "trajectory.json").read_bytes())


async def until(condition, *, limit_s: float = 5.0) -> None:
    """Wait for a condition, never longer than the limit."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
