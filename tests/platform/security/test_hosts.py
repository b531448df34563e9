from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from osmosis.platform.addresses import is_host_of
from osmosis.platform.app import create_app
from osmosis.platform.security.hosts import GuardHosts
from osmosis.platform.settings import Settings

HEALTH = "/api/health"


def guard(**values: object) -> GuardHosts:
    return GuardHosts(app=None, settings=Settings(**values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host", ["127.0.0.1:7670", "localhost", "LOCALHOST:1", "[::1]:7670", "127.8.8.8"]
)
def test_loopback_names_are_always_answered(host: str) -> None:
    assert guard().allows(host)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "192.168.1.5", "", "[", "127.0.0.1@evil.example:80"],
)
def test_other_names_are_refused(host: str) -> None:
    assert not guard().allows(host)


def test_configured_names_are_answered() -> None:
    settings = {"allowed_hosts": ("box.lan",), "public_url": "https://eval.example/"}
    assert guard(**settings).allows("BOX.lan:80")
    assert guard(**settings).allows("eval.example")
    assert guard(host="10.0.0.7").allows("10.0.0.7:7670")


def test_bound_wide_any_address_but_no_unknown_name_is_answered() -> None:
    assert guard(host="0.0.0.0").allows("192.168.1.5:7670")
    assert not guard(host="0.0.0.0").allows("evil.example")


async def test_a_rebound_name_gets_nothing(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/cli/verify", headers={"Host": "evil.example"})
    assert answer.status_code == 400
    assert answer.json()["code"] == "HOST_NOT_ALLOWED"


async def test_a_refused_name_is_told_the_address_that_works(live_url: str) -> None:
    async with httpx.AsyncClient() as stranger:
        answer = await stranger.get(f"{live_url}/api/health", headers={"Host": "evil.example"})
    assert f"Use {live_url}," in answer.json()["hint"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
async def test_a_foreign_origin_may_change_nothing(client: httpx.AsyncClient, origin: str) -> None:
    answer = await client.post(
        "/api/cli/workspaces", json={"name": "x"}, headers={"Origin": origin}
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "ORIGIN_NOT_ALLOWED")


@pytest.mark.parametrize(
    ("host", "named", "is_it"),
    [
        ("eval.example:7443", "https://eval.example:7443", True),
        ("EVAL.example", "https://eval.example:7443", True),
        ("eval.example", "https://eval.example", True),
        ("eval.example:80", "https://eval.example:7443", False),
        ("other.example", "https://eval.example:7443", False),
    ],
)
def test_a_proxy_may_leave_the_port_out(host: str, named: str, is_it: bool) -> None:
    assert is_host_of(host, named) is is_it


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://eval.example:7443", 200), ("https://eval.example:1", 403), ("null", 403)],
)
async def test_forms_behind_such_a_proxy_come_from_our_own_pages(
    tmp_path: Path, origin: str, status: int
) -> None:
    settings = Settings(
        data_dir=tmp_path / "data", embedded_worker=False, public_url="https://eval.example:7443"
    )
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://eval.example") as client:
            answer = await client.post(
                "/api/cli/device/authorize", json={"deviceName": "x"}, headers={"Origin": origin}
            )
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["verification_uri"] == "https://eval.example:7443/device"


async def test_a_cross_site_request_without_origin_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/api/cli/workspaces", json={"name": "x"}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert answer.status_code == 403


async def test_a_session_cookie_without_origin_may_change_nothing(
    page_client: httpx.AsyncClient,
) -> None:
    del page_client.headers["Origin"]
    answer = await page_client.post("/logout")
    assert answer.status_code == 403


async def test_every_answer_carries_the_security_headers(anonymous: httpx.AsyncClient) -> None:
    for path in (HEALTH, "/login", "/nothing"):
        headers = (await anonymous.get(path)).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
