from __future__ import annotations

import socket
from typing import Any

import pytest

from osmosis.client.api import Api
from osmosis.wire.errors import (
    AuthRequired,
    Conflict,
    Forbidden,
    NotFound,
    OsmosisError,
    RateLimited,
    Unreachable,
    ValidationFailed,
)
from tests.client.conftest import Answering

SCOPE = {"X-Osmosis-Git": "ada/agents"}


def api(server: Answering) -> Api:
    return Api(server.url, "secret", SCOPE)


def refusal(server: Answering, status: int, body: Any, **headers: str) -> OsmosisError:
    server.answer(status, body, **headers)
    with api(server) as client, pytest.raises(OsmosisError) as failed:
        client.dataset("x")
    return failed.value


def test_requests_carry_token_version_and_one_scope(server: Answering):
    server.answer(200, {"id": "1"})
    with api(server) as client:
        assert client.dataset("a/b c") == {"id": "1"}
    (seen,) = server.seen
    assert seen.path == "/api/cli/datasets/a%2Fb%20c"
    assert seen.headers["authorization"] == "Bearer secret"
    assert seen.headers["x-osmosis-git"] == "ada/agents"
    assert seen.headers["user-agent"].startswith("osmosis-cli/")
    assert seen.headers["x-osmosis-cli-version"]


def test_account_calls_carry_no_scope(server: Answering):
    server.answer(200, {"workspaces": []})
    with api(server) as client:
        client.workspaces()
    assert "x-osmosis-git" not in server.seen[0].headers


def test_loopback_is_reached_past_any_proxy(server: Answering, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server.answer(200, {"status": "ok"})
    with Api(server.url) as client:
        assert client.health() == {"status": "ok"}


def test_an_empty_answer_is_an_empty_object(server: Answering):
    server.answer(204)
    with api(server) as client:
        assert client.stop_eval("x") == {}


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, ValidationFailed, "VALIDATION"),
        (401, AuthRequired, "AUTH_REQUIRED"),
        (403, Forbidden, "PLATFORM_ERROR"),
        (404, NotFound, "NOT_FOUND"),
        (409, Conflict, "CONFLICT"),
        (422, OsmosisError, "PLATFORM_ERROR"),
        (426, OsmosisError, "UPGRADE_REQUIRED"),
        (429, RateLimited, "RATE_LIMITED"),
        (500, OsmosisError, "PLATFORM_ERROR"),
    ],
)
def test_statuses_become_codes(server: Answering, status: int, kind: type[OsmosisError], code: str):
    error = refusal(server, status, {"error": "No.", "code": "SOME_CODE", "field": "name", "x": 1})
    assert type(error) is kind
    assert (error.code, error.platform_code, error.field) == (code, "SOME_CODE", "name")
    assert error.message == "No."
    assert error.details["status_code"] == status
    assert error.details["x"] == 1


def test_a_hint_inside_the_text_is_shown_once(server: Answering):
    error = refusal(server, 404, {"error": "Gone. Look there.", "hint": "Look there."})
    assert (error.message, error.hint) == ("Gone.", "Look there.")


def test_issues_are_read_in_both_shapes(server: Answering):
    issues = ["plain", {"key": "a.b", "message": "wrong", "key_correction": "a.c"}, 3]
    error = refusal(server, 400, {"error": "No.", "issues": issues})
    assert [(i.key, i.message, i.key_correction) for i in error.issues] == [
        ("", "plain", None),
        ("a.b", "wrong", "a.c"),
    ]


def test_a_page_instead_of_json_is_shown_cut(server: Answering):
    error = refusal(server, 502, b"<html>" + b"x" * 1000)
    assert len(error.message) < 260
    assert "502" in error.message


def test_a_redirect_is_an_error_and_the_token_stays_here(server: Answering):
    error = refusal(server, 302, None, Location="http://127.0.0.1:1/elsewhere")
    assert "redirects" in error.message
    assert len(server.seen) == 1


@pytest.mark.parametrize("body", [b"<html>", [1], None])
def test_an_answer_that_is_no_object_is_told(server: Answering, body: Any):
    server.answer(200, body if body is not None else b"null")
    with api(server) as client, pytest.raises(Unreachable, match="JSON object"):
        client.dataset("x")


def test_no_server_says_how_to_start_one():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with Api(url, "secret") as client, pytest.raises(Unreachable) as failed:
        client.health()
    assert "osmosis server start" in (failed.value.hint or "")


def test_all_pages_are_joined(server: Answering):
    server.answer(200, {"datasets": [{"id": "1"}], "total_count": 2, "next_offset": 1})
    server.answer(200, {"datasets": [{"id": "2"}], "total_count": 2, "next_offset": None})
    with api(server) as client:
        page = client.datasets(everything=True)
    assert [item["id"] for item in page.items] == ["1", "2"]
    assert (page.total_count, page.has_more, page.next_offset) == (2, False, None)
    assert [seen.path.split("?")[1] for seen in server.seen] == [
        "limit=50&offset=0",
        "limit=50&offset=1",
    ]


def test_one_page_keeps_its_place_and_extras(server: Answering):
    answer = {"datasets": [{"id": "1"}], "total_count": 9, "has_more": True, "next_offset": 1}
    server.answer(200, {**answer, "platform_url": "http://x"})
    with api(server) as client:
        page = client.datasets(limit=1)
    assert (page.has_more, page.next_offset, page.extra) == (True, 1, {"platform_url": "http://x"})
