from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import httpx
from sqlalchemy import select, update

from osmosis.platform.accounts import service
from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import DeviceLogin
from osmosis.platform.platform import Platform

AUTHORIZE, TOKEN = "/api/cli/device/authorize", "/api/cli/device/token"


async def begin(anonymous: httpx.AsyncClient) -> dict[str, Any]:
    return (await anonymous.post(AUTHORIZE, json={"deviceName": "ada's laptop"})).json()


async def poll(anonymous: httpx.AsyncClient, codes: dict[str, Any]) -> httpx.Response:
    return await anonymous.post(TOKEN, json={"device_code": codes["device_code"]})


async def decide(page_client: httpx.AsyncClient, codes: dict[str, Any], decision: str) -> None:
    form = {"user_code": codes["user_code"].lower(), "decision": decision}
    assert (await page_client.post("/device", data=form)).status_code == 200


async def test_a_login_is_approved_on_the_page_and_gives_a_token_once(
    anonymous: httpx.AsyncClient, page_client: httpx.AsyncClient
) -> None:
    codes = await begin(anonymous)
    assert isinstance(codes["expires_in"], int)
    assert codes["verification_uri_complete"].startswith(codes["verification_uri"])
    waiting = await poll(anonymous, codes)
    assert (waiting.status_code, waiting.json()["error"]) == (400, "authorization_pending")

    page = await page_client.get(codes["verification_uri_complete"])
    assert "ada&#39;s laptop" in page.text
    await decide(page_client, codes, "approve")

    done = (await poll(anonymous, codes)).json()
    assert done["token"].startswith("osm_")
    assert isinstance(done["token_id"], str)
    expires = datetime.fromisoformat(done["expires_at"])
    assert expires - utc_now() > timedelta(days=89)
    assert done["user"]["id"] and done["user"]["email"]
    assert (await poll(anonymous, codes)).json()["error"] == "expired_token"

    headers = {"Authorization": f"Bearer {done['token']}"}
    assert (await anonymous.get("/api/cli/verify", headers=headers)).status_code == 200


async def test_polling_too_fast_is_told_to_slow_down_with_a_400(
    anonymous: httpx.AsyncClient,
) -> None:
    codes = await begin(anonymous)
    await poll(anonymous, codes)
    answer = await poll(anonymous, codes)
    assert (answer.status_code, answer.json()["error"]) == (400, "slow_down")


async def test_a_denied_login_gets_nothing(
    anonymous: httpx.AsyncClient, page_client: httpx.AsyncClient
) -> None:
    codes = await begin(anonymous)
    await decide(page_client, codes, "deny")
    assert (await poll(anonymous, codes)).json()["error"] == "access_denied"


async def test_an_old_login_can_be_neither_approved_nor_polled(
    platform: Platform, anonymous: httpx.AsyncClient, page_client: httpx.AsyncClient
) -> None:
    codes = await begin(anonymous)
    async with platform.db.write() as session:
        past = utc_now() - timedelta(seconds=1)
        await session.execute(update(DeviceLogin).values(expires_at=past))
    assert (await page_client.get(codes["verification_uri_complete"])).status_code == 404
    assert (await poll(anonymous, codes)).json()["error"] == "expired_token"


async def test_an_unknown_code_is_as_good_as_an_old_one(anonymous: httpx.AsyncClient) -> None:
    answer = await anonymous.post(TOKEN, json={"device_code": "nope"})
    assert (answer.status_code, answer.json()["error"]) == (400, "expired_token")


async def test_only_digests_of_codes_and_tokens_are_stored(
    platform: Platform, anonymous: httpx.AsyncClient
) -> None:
    codes = await begin(anonymous)
    async with platform.db.read() as session:
        login = (await session.execute(select(DeviceLogin))).scalar_one()
    assert codes["device_code"] not in str(vars(login))


async def test_waiting_logins_are_bounded(anonymous: httpx.AsyncClient, monkeypatch: Any) -> None:
    monkeypatch.setattr(service, "MAX_PENDING_LOGINS", 2)
    answers = [await anonymous.post(AUTHORIZE, json={}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
