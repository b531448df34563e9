from __future__ import annotations

import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import select

from osmosis.platform.accounts.service import ensure_local_account
from osmosis.platform.app import create_app
from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Token, User
from osmosis.platform.platform import Platform
from osmosis.platform.security.tokens import issue_token

VERIFY = "/api/cli/verify"


async def test_verify_shows_the_person_and_the_workspace(
    client: httpx.AsyncClient, account: Any
) -> None:
    body = (await client.get(VERIFY)).json()
    assert body["user"]["id"] == account.user_id
    assert body["workspace"] == {
        "id": account.workspace_id,
        "name": "agents",
        "role": "owner",
    }
    del client.headers["X-Osmosis-Git"]
    assert (await client.get(VERIFY)).json()["workspace"] is None


async def test_a_revoked_token_is_refused_by_its_own_code(client: httpx.AsyncClient) -> None:
    token_id = (await client.get(VERIFY)).json()["token_id"]
    assert (await client.delete(f"/api/cli/tokens/{token_id}")).status_code == 200
    answer = await client.get(VERIFY)
    assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_REVOKED")


async def test_nobody_revokes_the_token_of_another(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, stranger: Any
) -> None:
    token_id = (await client.get(VERIFY)).json()["token_id"]
    answer = await anonymous.delete(f"/api/cli/tokens/{token_id}", headers=stranger.headers)
    assert answer.status_code == 404
    assert (await client.get(VERIFY)).status_code == 200


async def test_an_expired_an_unknown_and_a_malformed_token_are_told_apart(
    platform: Platform, account: Any, anonymous: httpx.AsyncClient
) -> None:
    async with platform.db.write() as session:
        past = utc_now() - timedelta(seconds=1)
        _, expired = await issue_token(
            session, kind="device", name="old", user_id=account.user_id, expires_at=past
        )
    for header, code in (
        (f"Bearer {expired}", "TOKEN_EXPIRED"),
        ("Bearer osm_unknown", "TOKEN_INVALID"),
        ("Basic abc", "TOKEN_MISSING"),
        ("Bearer ", "TOKEN_MISSING"),
    ):
        answer = await anonymous.get(VERIFY, headers={"Authorization": header})
        assert (answer.status_code, answer.json()["code"]) == (401, code)


async def test_a_worker_token_is_no_person(worker_client: httpx.AsyncClient) -> None:
    answer = await worker_client.get(VERIFY)
    assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_INVALID")


async def test_no_token_is_stored_as_it_is(platform: Platform, account: Any) -> None:
    async with platform.db.read() as session:
        stored = (await session.execute(select(Token.digest))).scalars().all()
    assert account.token not in stored


async def test_the_local_token_file_logs_in_the_user_of_this_machine(
    platform: Platform, anonymous: httpx.AsyncClient
) -> None:
    file = platform.settings.local_token_file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    headers = {"Authorization": f"Bearer {file.read_text().strip()}"}
    user = (await anonymous.get(VERIFY, headers=headers)).json()["user"]
    assert user["email"].endswith("@localhost")


async def test_a_restart_keeps_the_account_and_its_local_token(platform: Platform) -> None:
    before = platform.settings.local_token_file.read_text()
    await ensure_local_account(platform.db, platform.settings)
    assert platform.settings.local_token_file.read_text() == before
    async with platform.db.read() as session:
        assert len((await session.execute(select(User))).all()) == 1


async def test_a_local_token_that_is_not_good_is_replaced(
    platform: Platform, tmp_path: Path
) -> None:
    platform.settings.local_token_file.write_text("osm_stale\n")
    await ensure_local_account(platform.db, platform.settings)
    assert platform.settings.local_token_file.read_text().strip() != "osm_stale"


async def test_a_second_start_on_the_same_directory_finds_everything(
    platform: Platform, client: httpx.AsyncClient, account: Any
) -> None:
    again = create_app(platform.settings)
    async with (
        again.router.lifespan_context(again),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(again),
            base_url="http://127.0.0.1",
            headers=account.headers,
        ) as second,
    ):
        assert (await second.get(VERIFY)).json()["workspace"]["name"] == "agents"
