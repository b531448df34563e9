"""The response caches of workspaces, as workers reach them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from osmosis.platform.platform import Platform
from osmosis.platform.runners import responses
from tests.platform.conftest import Account
from tests.platform.runs import Worker, add_dataset, push_workspace, submission

KEY = "0" * 40


async def run_of(
    platform: Platform,
    owner: Account,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    path: Path,
) -> Worker:
    """A claimed run in the workspace of ``owner``."""
    await push_workspace(platform, owner, path)
    await add_dataset(platform, owner)
    body = submission(limit=2)
    answer = await client.post("/api/cli/eval-runs", json=body, headers=owner.headers)
    assert answer.status_code == 201, answer.text
    worker = await Worker.claims(worker_client)
    assert worker is not None
    return worker


@pytest.fixture
async def worker(
    platform: Platform,
    account: Account,
    anonymous: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    tmp_path: Path,
) -> Worker:
    return await run_of(platform, account, anonymous, worker_client, tmp_path)


async def test_what_a_run_puts_a_later_run_of_the_workspace_gets(
    worker: Worker, platform: Platform
) -> None:
    assert (await worker.get(f"responses/{KEY}")).status_code == 204
    assert (await worker.put(f"responses/{KEY}", b"an answer")).status_code == 200
    assert (await worker.get(f"responses/{KEY}")).content == b"an answer"
    mode = platform.settings.responses_dir.stat().st_mode
    assert mode & 0o077 == 0


async def test_another_workspace_gets_nothing_of_it(
    worker: Worker,
    platform: Platform,
    stranger: Account,
    anonymous: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    tmp_path: Path,
) -> None:
    await worker.put(f"responses/{KEY}", b"an answer")
    other = await run_of(platform, stranger, anonymous, worker_client, tmp_path)
    assert (await other.get(f"responses/{KEY}")).status_code == 204
    await other.put(f"responses/{KEY}", b"theirs")
    assert (await worker.get(f"responses/{KEY}")).content == b"an answer"


async def test_a_manager_empties_the_cache_of_the_workspace_and_no_other(
    worker: Worker, client: httpx.AsyncClient, stranger: Account, anonymous: httpx.AsyncClient
) -> None:
    await worker.put(f"responses/{KEY}", b"an answer")
    theirs = await anonymous.delete("/api/cli/response-cache", headers=stranger.headers)
    assert theirs.json() == {"responses": 0, "bytes": 0}
    assert (await worker.get(f"responses/{KEY}")).content == b"an answer"
    answer = await client.delete("/api/cli/response-cache")
    assert answer.json()["responses"] == 1 and answer.json()["bytes"] > 0
    assert (await worker.get(f"responses/{KEY}")).status_code == 204


async def test_without_the_lease_nobody_reads_or_writes(
    worker: Worker, worker_client: httpx.AsyncClient, client: httpx.AsyncClient
) -> None:
    await worker.put(f"responses/{KEY}", b"an answer")
    worker.claim["lease_token"] = "another"
    assert (await worker.get(f"responses/{KEY}")).status_code == 409
    assert (await worker.put(f"responses/{KEY}", b"x")).status_code == 409
    path = f"/api/runner/runs/{worker.spec['run_id']}/responses/{KEY}"
    assert (await client.get(path)).status_code in (401, 403)


@pytest.mark.parametrize("key", ["..", "0" * 39, "0" * 41, "Z" * 40])
async def test_a_key_is_forty_hexadecimal_digits(worker: Worker, key: str) -> None:
    assert (await worker.put(f"responses/{key}", b"x")).status_code in (400, 404, 405)


async def test_a_response_is_bounded(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osmosis.platform.runners.routes.MAX_RESPONSE_BYTES", 10)
    assert (await worker.put(f"responses/{KEY}", b"x" * 11)).status_code == 413


async def test_a_file_that_cannot_be_used_is_said_to_be_so(
    worker: Worker, platform_app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, key: str) -> bytes:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(responses.LruStore, "get", broken)
    answer = await worker.get(f"responses/{KEY}")
    assert answer.status_code == 503
    assert answer.json()["code"] == "CACHE_FAILED"
