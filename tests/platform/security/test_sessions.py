from __future__ import annotations

import httpx
import pytest

from osmosis.platform.accounts.pages import local_path
from osmosis.platform.platform import Platform

LINKS = "/api/cli/login-links"


async def test_a_link_signs_in_once(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient
) -> None:
    url = (await client.post(LINKS)).json()["url"]
    first = await anonymous.get(url)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in first.headers.get_list("set-cookie")[-1]
    assert "SameSite=lax" in cookie.replace("samesite", "SameSite")
    anonymous.cookies.clear()
    again = await anonymous.get(url)
    assert again.status_code == 403
    assert "osmosis_session" not in again.headers.get("set-cookie", "")


async def test_a_page_without_a_session_leads_to_the_sign_in_page(
    anonymous: httpx.AsyncClient,
) -> None:
    browser = {"Accept": "text/html"}
    answer = await anonymous.get("/device?user_code=A&b=c", headers=browser)
    assert answer.status_code == 303
    login = await anonymous.get(answer.headers["location"], headers=browser)
    assert login.status_code == 200
    assert "osmosis server link" in login.text


async def test_a_link_goes_on_to_the_page_that_was_asked_for(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient
) -> None:
    answer = await anonymous.get("/device?user_code=AB", headers={"Accept": "text/html"})
    await anonymous.get(answer.headers["location"])
    url = (await client.post(LINKS)).json()["url"]
    assert (await anonymous.get(url)).headers["location"] == "/device?user_code=AB"


async def test_a_forged_or_foreign_cookie_is_no_session(
    platform: Platform, anonymous: httpx.AsyncClient, page_client: httpx.AsyncClient
) -> None:
    forged = platform.signer.sign("presigned", "some-user")
    for value in (forged, "x.y.z", page_client.cookies["osmosis_session"] + "x"):
        answer = await anonymous.get("/device", headers={"Cookie": f"osmosis_session={value}"})
        assert answer.status_code == 401


async def test_signing_out_ends_the_session(page_client: httpx.AsyncClient) -> None:
    assert (await page_client.get("/device")).status_code == 200
    await page_client.post("/logout")
    assert (await page_client.get("/device")).status_code == 303


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:1", "x", ""]
)
def test_no_foreign_address_is_gone_on_to(target: str) -> None:
    assert local_path(target) == "/"
