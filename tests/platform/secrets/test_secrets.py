from __future__ import annotations

from typing import Any

import httpx
import pytest

from osmosis.platform.db.models import Membership
from osmosis.platform.platform import Platform
from osmosis.platform.secrets.service import missing, resolve_secrets, secrets_not_found

SECRETS = "/api/cli/environment-secrets"
CANARY = "canary-7f3a-value"


async def put(
    client: httpx.AsyncClient, name: str, value: str = CANARY, scope: str = "user"
) -> httpx.Response:
    return await client.post(SECRETS, json={"name": name, "value": value, "scope": scope})


async def listed(client: httpx.AsyncClient, scope: str = "all") -> list[tuple[str, str]]:
    body = (await client.get(f"{SECRETS}?limit=50&offset=0&scope={scope}")).json()
    return [(item["name"], item["scope"]) for item in body["environment_secrets"]]


async def delete(client: httpx.AsyncClient, name: str, scope: str) -> httpx.Response:
    return await client.request("DELETE", SECRETS, json={"name": name, "scope": scope})


async def test_a_secret_is_set_listed_and_deleted_and_never_shown(
    client: httpx.AsyncClient, account: Any
) -> None:
    made = await put(client, "API_KEY")
    assert made.status_code == 200
    assert set(made.json()) == {
        "id",
        "name",
        "scope",
        "created_at",
        "updated_at",
        "creator_name",
        "updater_name",
    }
    await put(client, "API_KEY", scope="workspace")
    assert await listed(client) == [("API_KEY", "workspace"), ("API_KEY", "user")]
    assert await listed(client, "user") == [("API_KEY", "user")]
    assert await listed(client, "workspace") == [("API_KEY", "workspace")]
    assert CANARY not in (await client.get(SECRETS)).text
    assert (await delete(client, "API_KEY", "user")).status_code == 200
    assert await listed(client) == [("API_KEY", "workspace")]
    assert (await delete(client, "API_KEY", "user")).status_code == 404


async def test_setting_it_again_replaces_the_value(
    platform: Platform, client: httpx.AsyncClient, account: Any
) -> None:
    first = (await put(client, "API_KEY", "old")).json()
    second = (await put(client, "API_KEY", " new\n")).json()
    assert first["id"] == second["id"]
    async with platform.db.read() as session:
        found = await resolve_secrets(session, account.workspace_id, account.user_id, ["API_KEY"])
    assert found["API_KEY"].reveal(platform.vault) == " new\n"


async def test_a_personal_secret_overrides_and_says_so(
    platform: Platform, client: httpx.AsyncClient, account: Any
) -> None:
    await put(client, "BOTH", "personal")
    await put(client, "BOTH", "shared", "workspace")
    await put(client, "MINE")
    await put(client, "OURS", "shared", "workspace")
    async with platform.db.read() as session:
        names = ["OURS", "BOTH", "MINE", "NONE", "BOTH"]
        found = await resolve_secrets(session, account.workspace_id, account.user_id, names)
    assert {name: secret.scope for name, secret in found.items()} == {
        "OURS": "workspace",
        "BOTH": "user_override",
        "MINE": "user",
    }
    assert found["BOTH"].reveal(platform.vault) == "personal"
    assert missing(found, names) == ["NONE"]
    assert "cipher" not in repr(found["BOTH"])


def test_missing_secrets_are_named_in_the_words_that_the_client_looks_for() -> None:
    error = secrets_not_found(["A", "B"])
    assert error.body()["error"].startswith("Secret(s) not found: A, B")
    assert error.http_status == 404


@pytest.mark.parametrize("name", ["lower", "1A", "A-B", "", "A" * 256, "_A", CANARY])
async def test_a_bad_name_is_refused_and_not_repeated(client: httpx.AsyncClient, name: str) -> None:
    answer = await put(client, name)
    assert (answer.status_code, answer.json()["field"]) == (400, "name")
    assert CANARY not in answer.text


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 65_537])
async def test_a_bad_value_is_refused(client: httpx.AsyncClient, value: str) -> None:
    answer = await put(client, "API_KEY", value)
    assert (answer.status_code, answer.json()["field"]) == (400, "value")


async def test_only_a_manager_writes_for_the_workspace(
    platform: Platform, client: httpx.AsyncClient, account: Any
) -> None:
    async with platform.db.write() as session:
        membership = await session.get_one(Membership, (account.workspace_id, account.user_id))
        membership.role = "member"
    answer = await put(client, "API_KEY", scope="workspace")
    assert (answer.status_code, answer.json()["code"]) == (403, "ROLE_REQUIRED")
    assert (await delete(client, "API_KEY", "workspace")).status_code == 403
    assert (await put(client, "API_KEY")).status_code == 200


async def test_nobody_sees_or_gets_the_secrets_of_another_workspace(
    platform: Platform, client: httpx.AsyncClient, anonymous: httpx.AsyncClient, stranger: Any
) -> None:
    await put(client, "API_KEY")
    await put(client, "SHARED", scope="workspace")
    body = (await anonymous.get(SECRETS, headers=stranger.headers)).json()
    assert body["environment_secrets"] == []
    async with platform.db.read() as session:
        assert not await resolve_secrets(
            session, stranger.workspace_id, stranger.user_id, ["API_KEY", "SHARED"]
        )


async def test_the_value_is_in_no_file_of_the_server(
    platform: Platform, client: httpx.AsyncClient
) -> None:
    await put(client, "API_KEY")
    files = [path for path in platform.settings.data_dir.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]
