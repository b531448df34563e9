from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import update

from osmosis.platform import deps
from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Token
from osmosis.platform.deps import CurrentWorker
from osmosis.platform.platform import Platform


@pytest.fixture(autouse=True)
def worker_route(platform_app: FastAPI) -> None:
    @platform_app.get("/api/only-workers")
    async def only_workers(worker: CurrentWorker) -> dict[str, str]:
        return {"name": worker.name}


async def test_a_worker_token_opens_worker_calls_and_a_persons_does_not(
    worker_client: httpx.AsyncClient, client: httpx.AsyncClient, anonymous: httpx.AsyncClient
) -> None:
    for _ in range(2):
        assert (await worker_client.get("/api/only-workers")).status_code == 200
    answer = await client.get("/api/only-workers")
    assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_INVALID")
    assert (await anonymous.get("/api/only-workers")).status_code == 401


async def test_a_revoked_worker_token_is_believed_only_for_a_moment(
    platform: Platform, worker_client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deps, "WORKER_TOKEN_KNOWN_S", 0.0)
    assert (await worker_client.get("/api/only-workers")).status_code == 200
    async with platform.db.write() as session:
        await session.execute(
            update(Token).where(Token.kind == "worker").values(revoked_at=utc_now())
        )
    answer = await worker_client.get("/api/only-workers")
    assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_REVOKED")
