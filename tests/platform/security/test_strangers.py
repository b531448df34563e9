"""Every route, called by people and programs who have no business there.

The routes are walked, so a new one is tested without being named here; what it needs in its path
comes from ``PATH_VALUES``, and a body, where it takes one, from ``BODIES``.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from sqlalchemy import select

from osmosis.platform.app import create_app
from osmosis.platform.db.base import Base
from osmosis.platform.db.models import Token
from osmosis.platform.platform import Platform
from osmosis.platform.security.sessions import create_login_code
from osmosis.platform.settings import Settings
from tests.platform.conftest import BASE_URL, Account
from tests.platform.local_runs import declared, local_run
from tests.platform.runs import Worker, add_dataset, push_workspace, record, submission

MARK = "victims-own"
OPEN = {
    "/api/openapi.json", "/api/health", "/metrics", "/account/account.css", "/login", "/logout",
    "/api/cli/device/authorize", "/api/cli/device/token", "/static/{name}",
    "/api/cli/training-runs", "/api/cli/benchmarks", "/api/cli/benchmark-runs",
}  # fmt: skip
"""Say the same to everybody, or what the caller's own code or form says."""

QUERIES = {
    "/{workspace}/compare": "?run=one&run=other",
    "/api/cli/eval-runs/{ref}/intervals": "?cluster_by=topic",
}
"""What a route insists on before it looks at who asks for what."""

BODIES: dict[str, Any] = {
    "/api/cli/workspaces": {"name": "fresh", "repository": "ada/agents"},
    "/api/cli/environment-secrets": {
        "name": "VICTIM_KEY", "value": "overwritten", "scope": "workspace",
    },
    "/api/cli/model-endpoints": {"name": f"{MARK}-endpoint", "base_url": "http://127.0.0.1:1/v1"},
    "/api/cli/datasets": {"file_name": "x.jsonl", "file_size": 3, "extension": "jsonl"},
    "/api/cli/datasets/{ref}/complete": {"file_extension": "jsonl"},
    "/api/cli/workspaces/connect": {"url": "https://127.0.0.1:1/ada/agents"},
    "/api/cli/eval-runs": submission(limit=2, experiment={"dataset": f"{MARK}-rows"}),
    "/api/cli/eval-runs/plan": submission(limit=2, experiment={"dataset": f"{MARK}-rows"}),
    "/api/cli/eval-runs/{ref}/samples/download-urls": {"items": [{"path": "metrics.json"}]},
    "/api/cli/eval-runs/{ref}/exports": {"format": "csv"},
    "/api/cli/eval-runs/compare": {"runs": ["a", "b"]},
    "/api/cli/eval-runs/imports": declared(local_run()),
    "/api/cli/eval-runs/imports/{session_id}/uploads": {"paths": ["index.jsonl"]},
    "/api/cli/eval-runs/imports/{session_id}/uploads/complete": {"path": "index.jsonl"},
    "/api/runner/claim": {"worker_id": "w", "wait_s": 0},
    "/api/runner/runs/{run_id}/heartbeat": {"stage": "running"},
    "/api/runner/runs/{run_id}/logs": {"entries": []},
    "/api/runner/runs/{run_id}/finish": {"status": "finished"},
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """What the victim has, and the values that lead to it."""

    paths: dict[str, str]
    marks: tuple[str, ...]
    worker: Worker


def routes() -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as scratch:
        app = create_app(Settings(data_dir=Path(scratch), embedded_worker=False))
    found: list[tuple[str, str]] = []
    for route in iter_route_contexts(app.routes):
        for method in sorted((getattr(route, "methods", None) or set[str]()) - {"HEAD"}):
            if route.path not in OPEN:
                found.append((method, route.path))
    return found


ROUTES = routes()


@pytest.fixture
async def world(
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    platform: Platform,
    account: Account,
    tmp_path: Path,
) -> World:
    await push_workspace(platform, account, tmp_path)
    dataset = await add_dataset(platform, account, name=f"{MARK}-rows")
    secret = {"name": "VICTIM_KEY", "value": f"{MARK}-value", "scope": "workspace"}
    assert (await client.post("/api/cli/environment-secrets", json=secret)).is_success
    endpoint = {"name": f"{MARK}-endpoint", "base_url": "http://127.0.0.1:1/v1"}
    assert (await client.post("/api/cli/model-endpoints", json=endpoint)).is_success
    body = submission(
        limit=2, experiment={"dataset": dataset.name, "model_path": f"{MARK}-endpoint"}
    )
    answer = await client.post("/api/cli/eval-runs", json=body)
    assert answer.status_code == 201, answer.text
    worker = await Worker.claims(worker_client)
    assert worker is not None
    sent = record(0, output=f"{MARK}-output")
    assert (await worker.send(sent)).is_success
    assert (await worker.put(f"artifacts/{sent['rollout_id']}/a.txt", b"victims-own")).is_success
    async with platform.db.read() as session:
        mine = select(Token.id).where(Token.user_id == account.user_id, Token.name == "test")
        token = (await session.execute(mine)).scalar_one()
    started = await client.post("/api/cli/eval-runs/imports", json=declared(local_run()))
    assert started.is_success, started.text
    exports = f"/api/cli/eval-runs/{worker.spec['run_id']}/exports"
    exported = await client.post(exports, json={"format": "csv"})
    assert exported.is_success, exported.text
    await until_exported(client, f"{exports}/{exported.json()['id']}")
    name, run_id = worker.spec["name"], worker.spec["run_id"]
    paths = {
        "token_id": token,
        "user_id": account.user_id,
        "workspace": account.workspace,
        "workspace_id": account.workspace_id,
        "dataset_id": dataset.id,
        "file_name": f"{MARK}-rows.jsonl",
        "number": "1",
        "run_id": run_id,
        "session_id": started.json()["session_id"],
        "export_id": exported.json()["id"],
        "rollout_id": sent["rollout_id"],
        "path": "a.txt",
        "row": "0",
        "row_index": "0",
        "key": "0" * 64,
        "replayed_id": run_id,
        "run_index": "0",
    }
    return World(paths, (MARK, name, run_id, dataset.id, account.identity, "ada@"), worker)


async def until_exported(client: httpx.AsyncClient, url: str) -> None:
    """A job that still runs changes its row by itself."""
    for _ in range(600):
        if (await client.get(url)).json()["status"] == "done":
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the export did not end")


def address(path: str, world: World) -> str:
    values = dict(world.paths)
    values["ref"] = values["dataset_id"] if "/datasets/" in path else values["run_id"]
    values["name"] = f"{MARK}-endpoint" if "model" in path else world.worker.spec["name"]
    return re.sub(r"\{(\w+)(:path)?\}", lambda match: values[match[1]], path)


async def belongings(platform: Platform, *owners: str) -> set[str]:
    """Every row of the database that names one of the owners."""
    found: set[str] = set()
    async with platform.db.read() as session:
        for name, table in Base.metadata.tables.items():
            # When a token was last used is the one thing that a call may leave behind.
            columns = [column for column in table.columns if not column.name.startswith("last_")]
            for row in await session.execute(select(*columns)):
                if any(owner in repr(row) for owner in owners):
                    found.add(f"{name}: {row!r}")
    return found


def assert_nothing_said(answer: httpx.Response, world: World, sent: str) -> None:
    text = answer.text + str(answer.headers)
    for mark in world.marks:
        # A refusal may repeat what the caller said; it may not tell anything else.
        assert mark not in text or mark in sent, f"{answer.status_code}: {text[:500]}"


@pytest.fixture
async def outsider(
    platform_app: FastAPI, platform: Platform, stranger: Account
) -> AsyncIterator[httpx.AsyncClient]:
    """A stranger with a token and a page session, each of them good for their own things."""
    async with platform.db.write() as session:
        code = await create_login_code(session, stranger.user_id, lifetime_s=60)
    transport = httpx.ASGITransport(platform_app)
    headers = {"Authorization": f"Bearer {stranger.token}", "Origin": BASE_URL}
    async with httpx.AsyncClient(
        transport=transport, base_url=BASE_URL, headers=headers
    ) as browser:
        await browser.get(f"/login?code={code}")
        yield browser


async def attack(
    client: httpx.AsyncClient, platform: Platform, world: World, headers: dict[str, str]
) -> set[str]:
    """Call every route; returns those that did not refuse with 401, 403 or 404."""
    owners = (world.paths["run_id"], world.paths["workspace_id"], world.paths["user_id"])
    before = await belongings(platform, *owners)
    assert len(before) > 10
    allowed: set[str] = set()
    for method, path in ROUTES:
        url = address(path, world) + QUERIES.get(path, "")
        body = BODIES.get(path, None if method == "GET" else {})
        answer = await client.request(method, url, json=body, headers=headers)
        assert answer.status_code < 500, f"{method} {path}: {answer.status_code} {answer.text}"
        assert_nothing_said(answer, world, f"{url} {body} {headers}")
        if answer.status_code not in (401, 403, 404):
            allowed.add(f"{method} {path}")
    assert await belongings(platform, *owners) == before
    return allowed


OWN_THINGS = {
    "GET /", "GET /device", "POST /device", "POST /api/cli/login-links",
    "GET /api/cli/workspaces", "POST /api/cli/workspaces",
    "GET /api/cli/quickstart", "POST /api/cli/quickstart",
}  # fmt: skip
"""What is about the caller alone, whatever workspace is named."""


async def test_a_stranger_in_the_victims_workspace_is_refused_everywhere(
    outsider: httpx.AsyncClient, platform: Platform, world: World, account: Account
) -> None:
    headers = {"X-Osmosis-Git": account.identity}
    assert await attack(outsider, platform, world, headers) == OWN_THINGS
    headers = {"X-Osmosis-Workspace": account.workspace}
    assert await attack(outsider, platform, world, headers) == OWN_THINGS


async def test_a_strangers_own_workspace_leads_to_nothing_of_the_victims(
    outsider: httpx.AsyncClient, platform: Platform, world: World, stranger: Account
) -> None:
    allowed = await attack(outsider, platform, world, {"X-Osmosis-Git": stranger.identity})
    leading_to_a_thing = {route for route in allowed if "{" in route}
    assert leading_to_a_thing == set()
    assert not any("/api/runner/" in route for route in allowed)


async def test_nobody_gets_nowhere(
    anonymous: httpx.AsyncClient, platform: Platform, world: World, account: Account
) -> None:
    assert await attack(anonymous, platform, world, {"X-Osmosis-Git": account.identity}) == set()


async def test_a_worker_is_no_person_and_does_nothing_to_a_run_without_its_lease(
    worker_client: httpx.AsyncClient, platform: Platform, world: World, account: Account
) -> None:
    for lease in ({}, {"X-Osmosis-Lease": "guessed"}):
        headers = {"X-Osmosis-Git": account.identity, **lease}
        allowed = await attack(worker_client, platform, world, headers)
        assert {route for route in allowed if "/api/runner/" not in route} == set()


async def test_an_address_signed_for_one_thing_opens_no_other(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, world: World
) -> None:
    ref = world.paths["dataset_id"]
    url = (await client.get(f"/api/cli/datasets/{ref}/download")).json()["presigned_url"]
    path, _, query = url.removeprefix(BASE_URL).partition("?")
    assert (await anonymous.get(f"{path}?{query}")).status_code == 200
    signature = query.partition("=")[2]
    body, stamp, mac = signature.rsplit(".", 2)
    flipped = ("B" if body[5] == "A" else "A").join((body[:5], body[6:]))
    for tampered in (
        f"{path}?signature={flipped}.{stamp}.{mac}",
        f"{path}?signature={body}.{stamp}.{mac[:-1]}",
        f"{path}?signature=",
        path,
        f"{path.replace(ref, '0' * 32)}?{query}",
        f"{path}x?{query}",
        f"/api/cli/eval-runs/-/file?{query}",
    ):
        answer = await anonymous.get(tampered)
        assert answer.status_code in (403, 404), (tampered, answer.text)
    put = await anonymous.put(f"/api/uploads/datasets/{ref}/parts/1?{query}", content=b"x")
    assert put.status_code == 403
