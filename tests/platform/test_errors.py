from __future__ import annotations

import errno

import httpx
import pytest
from fastapi import FastAPI

from osmosis.platform.errors import internal_error

CLI = "/api/cli"


def assert_error(answer: httpx.Response, status: int, code: str) -> dict:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert isinstance(body["error"], str) and body["error"] == body["message"]
    assert body["code"] == code
    return body


async def test_an_unknown_api_path_is_json_and_not_a_page(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"{CLI}/nothing", headers={"Accept": "text/html"})
    assert_error(answer, 404, "NOT_SUPPORTED")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/training-runs"),
        ("GET", "/training-runs/x"),
        ("GET", "/benchmarks/x"),
        ("POST", "/dev-rollout-server"),
    ],
)
async def test_what_comes_later_says_so(client: httpx.AsyncClient, method: str, path: str) -> None:
    body = assert_error(await client.request(method, CLI + path, json={}), 404, "NOT_SUPPORTED")
    assert "not supported by this server" in body["error"]


@pytest.mark.parametrize("key", ["training-runs", "benchmarks", "benchmark-runs"])
async def test_lists_of_what_comes_later_are_empty(client: httpx.AsyncClient, key: str) -> None:
    answer = await client.get(f"{CLI}/{key}?limit=50&offset=0")
    assert answer.json() == {
        key.replace("-", "_"): [],
        "total_count": 0,
        "has_more": False,
        "next_offset": None,
    }


async def test_a_trailing_slash_is_not_redirected(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{CLI}/workspaces/", json={"name": "x"})
    assert_error(answer, 404, "NOT_SUPPORTED")


async def test_a_bad_body_lists_every_issue_without_repeating_values(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post(
        f"{CLI}/environment-secrets", json={"name": 7, "value": ["canary"], "scope": "canary"}
    )
    body = assert_error(answer, 400, "VALIDATION")
    assert {issue["key"] for issue in body["issues"]} == {"name", "value", "scope"}
    assert "canary" not in answer.text


async def test_a_body_that_is_no_json_is_a_400(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{CLI}/workspaces", content=b"{nope")
    assert_error(answer, 400, "VALIDATION")


async def test_a_wrong_method_is_json(client: httpx.AsyncClient) -> None:
    answer = await client.put(f"{CLI}/workspaces", json={})
    assert_error(answer, 405, "HTTP_405")


async def test_an_unexpected_error_shows_an_id_and_no_traceback(
    platform_app: FastAPI, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    @platform_app.get("/api/cli/broken")
    async def broken() -> None:
        raise RuntimeError("secret-detail")

    answer = await client.get("/api/cli/broken")
    body = assert_error(answer, 500, "INTERNAL")
    assert "secret-detail" not in answer.text
    assert body["error_id"] in caplog.text
    assert "secret-detail" in caplog.text


async def test_a_401_names_the_scheme(anonymous: httpx.AsyncClient) -> None:
    answer = await anonymous.get(f"{CLI}/verify")
    assert_error(answer, 401, "AUTH_HEADER_MISSING")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_body_over_the_limit_is_refused_before_it_is_read(
    platform_app: FastAPI, client: httpx.AsyncClient
) -> None:
    too_much = platform_app.state.platform.settings.body_limit_bytes + 1
    answer = await client.post(f"{CLI}/workspaces", content=b" " * too_much)
    assert_error(answer, 413, "BODY_TOO_LARGE")

    async def chunks():
        for _ in range(too_much // 65_536 + 2):
            yield b" " * 65_536

    answer = await client.post(f"{CLI}/workspaces", content=chunks())
    assert_error(answer, 413, "BODY_TOO_LARGE")


async def test_a_list_page_is_bounded(client: httpx.AsyncClient) -> None:
    assert_error(await client.get(f"{CLI}/benchmarks?limit=51"), 400, "VALIDATION")
    assert_error(await client.get(f"{CLI}/benchmarks?offset=-1"), 400, "VALIDATION")


def test_a_full_disk_is_named_as_such() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as cause:
            raise RuntimeError("the upload broke off") from cause
    except RuntimeError as error:
        told = internal_error("abc", error)
    assert told.http_status == 507 and "no room" in told.message
    assert internal_error("abc", RuntimeError("other")).http_status == 500
