from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from osmosis.client.auth import Platform, Token, find_platform, find_token
from osmosis.client.credentials import save_login
from osmosis.client.local_server import find_local_server, local_token
from osmosis.client.urls import DEFAULT_PLATFORM_URL
from osmosis.processes import boot_id, process_start_time
from osmosis.wire.errors import AuthRequired, OsmosisError, ValidationFailed

ANSWER = {"user": {"id": "u", "email": "a@b", "name": None}, "token_id": "t"}
LOCAL = "http://127.0.0.1:7999"


def run_server(
    home: Path, *, pid: int | None = None, start: int | None = None, boot: str | None = None
) -> None:
    """What a server leaves in its data directory; this very process plays it."""
    pid = pid or os.getpid()
    data = home / "data"
    data.mkdir()
    started = start or process_start_time(pid)
    facts = {"pid": pid, "url": LOCAL, "start_time": started, "boot_id": boot or boot_id()}
    (data / "server.json").write_text(json.dumps(facts))
    (data / "local-token").write_text("local-secret\n")


def test_without_anything_the_default_is_used():
    assert find_platform() == Platform(DEFAULT_PLATFORM_URL, "default")


def test_the_order_is_flag_environment_origin_local_server(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    run_server(home)
    assert find_platform().url == LOCAL
    assert find_platform(None, "http://127.0.0.1:7001").source == "origin"
    monkeypatch.setenv("OSMOSIS_PLATFORM_URL", "http://127.0.0.1:7002")
    assert find_platform(None, "http://127.0.0.1:7001").url == "http://127.0.0.1:7002"
    assert find_platform("127.0.0.1:7003").url == "http://127.0.0.1:7003"


def test_a_server_that_has_ended_is_not_found(home: Path):
    run_server(home, start=1)
    server = find_local_server()
    assert server is not None
    assert not server.alive
    assert find_platform().source == "default"
    assert local_token(LOCAL) is None


def test_a_server_of_an_earlier_boot_has_ended_whoever_has_its_pid_now(home: Path):
    run_server(home, boot="an earlier boot")
    server = find_local_server()
    assert server is not None
    assert not server.alive


def test_a_broken_server_file_is_as_none(home: Path):
    (home / "data").mkdir()
    (home / "data/server.json").write_text("{")
    assert find_local_server() is None


def test_plain_http_to_another_machine_is_refused():
    with pytest.raises(ValidationFailed, match="plain http"):
        find_platform("http://192.168.1.2:7670")


def test_the_local_server_logs_its_neighbour_in(home: Path):
    run_server(home)
    assert find_token(find_platform()) == Token("local-secret", "local server")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:7998", "https://eval.example:7999", "http://10.0.0.1:7999"]
)
def test_the_local_token_goes_nowhere_else(home: Path, url: str):
    run_server(home)
    assert local_token(url) is None


def test_a_saved_login_wins_over_the_local_token(home: Path):
    run_server(home)
    save_login(LOCAL, "saved", ANSWER)
    assert find_token(find_platform()) == Token("saved", "login")


def test_the_environment_wins_over_a_saved_login(monkeypatch: pytest.MonkeyPatch):
    save_login("https://eval.example", "saved", ANSWER)
    monkeypatch.setenv("OSMOSIS_TOKEN", "given")
    assert find_token(find_platform("https://eval.example")).value == "given"


def test_an_origin_does_not_choose_who_gets_the_environment_token(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OSMOSIS_TOKEN", "given")
    platform = find_platform(None, "https://evil.example")
    with pytest.raises(OsmosisError) as failed:
        find_token(platform)
    assert failed.value.code == "ENV_TOKEN_PLATFORM_REQUIRED"
    monkeypatch.setenv("OSMOSIS_TOKEN_PLATFORM_URL", "https://evil.example/")
    assert find_token(platform).value == "given"


def test_a_token_for_another_platform_is_not_sent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OSMOSIS_TOKEN", "given")
    monkeypatch.setenv("OSMOSIS_TOKEN_PLATFORM_URL", "http://localhost:7670")
    with pytest.raises(OsmosisError) as failed:
        find_token(find_platform("http://127.0.0.1:7670"))
    assert failed.value.code == "ENV_TOKEN_PLATFORM_MISMATCH"


def test_no_server_and_no_login_says_how_to_start_one():
    with pytest.raises(AuthRequired) as failed:
        find_token(find_platform())
    assert "osmosis server start" in (failed.value.hint or "")


def test_an_unknown_platform_asks_for_a_login():
    with pytest.raises(AuthRequired) as failed:
        find_token(find_platform("https://eval.example"))
    assert "osmosis auth login" in (failed.value.hint or "")


def test_a_token_is_not_shown():
    assert "secret" not in repr(Token("secret", "login"))
