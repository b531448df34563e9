"""What tests of runs need: a pushed workspace, a dataset, bodies and records."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from osmosis.platform.datasets.service import dataset_path
from osmosis.platform.db.models import Dataset
from osmosis.platform.gitsync.git import git
from osmosis.platform.gitsync.service import ensure_hosted, repository_of
from osmosis.platform.platform import Platform

if TYPE_CHECKING:
    from tests.platform.conftest import Account


FILES = {
    "rollouts/multiply/main.py": "print('hello')\n",
    "rollouts/multiply/pyproject.toml": "[project]\nname = 'multiply'\n",
    "rollouts/divide/main.py": "print('hello')\n",
    "models/rules.toml": "[[rule]]\n",
}


async def push_workspace(
    platform: Platform, account: Account, tmp_path: Path, files: dict[str, str] | None = None
) -> str:
    """Commit files and bring them into the workspace's hosted repository; the commit's id."""
    work = tmp_path / f"work-{secrets.token_hex(3)}"
    for name, text in (files or FILES).items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    async with platform.db.read() as session:
        repository = await repository_of(session, account.workspace_id)
    bare = await ensure_hosted(platform, repository)
    for arguments in (
        ("init", "--quiet", "--initial-branch=main", "."),
        ("add", "--all"),
        ("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--message=start"),
        ("push", "--quiet", "--force", str(bare), "HEAD:refs/heads/main"),
    ):
        process = await asyncio.create_subprocess_exec("git", *arguments, cwd=work)
        assert await process.wait() == 0
    output = await git(platform.settings, bare, "rev-parse", "refs/heads/main", timeout_s=10)
    return output.decode().strip()


async def add_dataset(
    platform: Platform, account: Account, *, name: str = "sums", rows: int = 40, **columns: Any
) -> Dataset:
    """An uploaded dataset of ``rows`` rows."""
    lines = [{"user_prompt": f"row-{i}.", "ground_truth": str(i)} for i in range(rows)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    values: dict[str, Any] = {
        "status": "uploaded",
        "extension": "jsonl",
        "row_count": rows,
        "preview": lines[:5],
        "sha256": "0" * 64,
        **columns,
    }
    dataset = Dataset(workspace_id=account.workspace_id, name=name, size_bytes=len(text), **values)
    async with platform.db.write() as session:
        session.add(dataset)
        await session.flush()
    dataset_path(platform.settings, dataset).write_text(text)
    return dataset


def submission(**changes: Any) -> dict[str, Any]:
    """A body of ``POST /api/cli/eval-runs``; keyword arguments go to [evaluation]."""
    sections = ("experiment", "advanced", "env", "secrets")
    given = {name: changes.pop(name) for name in sections if name in changes}
    experiment = {
        "rollout": "multiply",
        "entrypoint": "main.py",
        "model_path": "openai/gpt-5-mini",
        "dataset": "sums",
        **given.get("experiment", {}),
    }
    body: dict[str, Any] = {"experiment_config": experiment}
    if changes:
        body["evaluation_config"] = changes
    if "advanced" in given:
        body["advanced_config"] = given["advanced"]
    if "env" in given:
        body["env_config"] = given["env"]
    if "secrets" in given:
        body["secrets"] = given["secrets"]
    return body


def record(row: int, run: int = 0, **changes: Any) -> dict[str, Any]:
    """A record as a shard sends it."""
    rollout_id = changes.pop("rollout_id", None) or secrets.token_hex(16)
    reward = changes.get("reward", 1.0)
    return {
        "row_index": row,
        "run_index": run,
        "source_row": row,
        "rollout_id": rollout_id,
        "status": "success",
        "reward": reward,
        "tokens": 100,
        "prompt_tokens": 60,
        "completion_tokens": 40,
        "cost_usd": 0.001,
        "duration_ms": 250.0,
        "started_at": 1_700_000_000.0,
        "finished_at": 1_700_000_000.25,
        "calls": [
            {
                "model": "gpt-5-mini",
                "started_at": 1_700_000_000.0,
                "latency_s": 0.2,
                "http_status": 200,
                "prompt_tokens": 60,
                "completion_tokens": 40,
                "cost_usd": 0.001,
            }
        ],
        "trajectory": {
            "schema_version": "ATIF-v1.7",
            "session_id": rollout_id,
            "trajectory_id": rollout_id,
            "agent": {"name": "osmosis-rollout-sdk", "version": "1"},
            "steps": [
                {"step_id": 1, "source": "user", "message": f"row-{row}."},
                {"step_id": 2, "source": "agent", "message": f"#### {row}"},
            ],
            "extra": {"osmosis": {"rollout_id": rollout_id, "label": str(row), "reward": reward}},
        },
        **changes,
    }


def ndjson(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in records)


Running = Callable[..., Awaitable["Worker"]]
"""Submits a run of the dataset 'sums' and claims it: the fixture ``running``."""


@dataclass
class Worker:
    """A worker's side of one claimed run."""

    client: httpx.AsyncClient
    claim: dict[str, Any]

    @classmethod
    async def claims(
        cls, client: httpx.AsyncClient, worker_id: str = "w1", wait_s: float = 0
    ) -> Worker | None:
        body = {"worker_id": worker_id, "wait_s": wait_s}
        answer = await client.post("/api/runner/claim", json=body)
        if answer.status_code == 204:
            return None
        assert answer.status_code == 200, answer.text
        return cls(client, answer.json())

    @property
    def spec(self) -> dict[str, Any]:
        return self.claim["spec"]

    def _path(self, what: str) -> str:
        return f"/api/runner/runs/{self.spec['run_id']}/{what}"

    @property
    def _headers(self) -> dict[str, str]:
        return {"X-Osmosis-Lease": self.claim["lease_token"]}

    async def get(self, what: str) -> httpx.Response:
        return await self.client.get(self._path(what), headers=self._headers)

    async def post(self, what: str, **body: Any) -> httpx.Response:
        return await self.client.post(self._path(what), json=body, headers=self._headers)

    async def put(self, what: str, content: bytes) -> httpx.Response:
        return await self.client.put(self._path(what), content=content, headers=self._headers)

    async def send(self, *records: dict[str, Any]) -> httpx.Response:
        return await self.client.post(
            self._path("records"), content=ndjson(*records), headers=self._headers
        )

    async def finish(self, status: str = "finished", **more: Any) -> httpx.Response:
        return await self.post("finish", status=status, **more)


async def submitted(client: httpx.AsyncClient, **changes: Any) -> str:
    """The name of a run that was just submitted; changes go to :func:`submission`."""
    answer = await client.post("/api/cli/eval-runs", json=submission(**changes))
    assert answer.status_code == 201, answer.text
    return answer.json()["name"]


async def claimed(client: httpx.AsyncClient, worker_id: str = "w1") -> Worker:
    """The worker of the run that waits."""
    worker = await Worker.claims(client, worker_id)
    assert worker is not None
    return worker
