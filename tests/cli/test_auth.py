from __future__ import annotations

from pathlib import Path

import pytest

from osmosis.client.credentials import credentials_path
from tests.cli.conftest import Osmosis
from tests.client.conftest import Answering, server

__all__ = ["server"]


def local(server_data: Path) -> str:
    return (server_data / "local-token").read_text().strip()


def test_beside_a_server_one_is_logged_in(workspace: Path, near: Osmosis):
    data = near("--json", "auth", "whoami").json["data"]
    assert data["source"] == "local server"
    assert data["workspace"]["name"] == workspace.name
    assert data["account"]["email"] == data["email"]


def test_whoami_works_outside_a_workspace(near: Osmosis):
    assert near("--json", "auth", "whoami").json["data"]["workspace"] is None


def test_a_token_is_saved_used_and_forgotten(near: Osmosis, server_data: Path):
    done = near("--json", "auth", "login", "--token", "-", stdin=local(server_data) + "\n")
    assert done.json["resource"]["source"] == "token"
    assert local(server_data) not in done.out + done.err
    assert near("--json", "auth", "whoami").json["data"]["source"] == "login"
    assert credentials_path().stat().st_mode & 0o077 == 0


def test_a_logout_leaves_the_token_of_the_server_on_this_machine_alone(
    near: Osmosis, server_data: Path
):
    near("auth", "login", "--token", "-", stdin=local(server_data) + "\n")
    done = near("--json", "auth", "logout", "--yes").json["resource"]
    assert done["revoked"] is False
    assert near("--json", "auth", "whoami").json["data"]["source"] == "local server"


def test_a_wrong_token_is_refused_and_not_saved(near: Osmosis):
    assert near("--json", "auth", "login", "--token", "wrong").error["code"] == "AUTH_REQUIRED"
    assert not credentials_path().exists()


def test_logout_without_a_login_is_a_noop(near: Osmosis):
    done = near("--json", "auth", "logout", "--yes").json
    assert (done["status"], done["operation"]) == ("noop", "auth.logout")


def test_a_browser_login_needs_a_person(near: Osmosis):
    assert near("--json", "auth", "login").error["code"] == "INTERACTIVE_REQUIRED"


def test_a_login_beside_an_environment_token_is_refused(
    near: Osmosis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OSMOSIS_TOKEN", "x")
    assert near("--json", "auth", "login").error["code"] == "CONFLICT"


def test_git_gets_the_token_of_its_own_platform(near: Osmosis, server_data: Path):
    url = near("--json", "auth", "whoami").json["data"]["platform_url"]
    host = url.removeprefix("http://")
    done = near("auth", "git-credential", "get", stdin=f"protocol=http\nhost={host}\n\n")
    assert done.out == f"username=osmosis\npassword={local(server_data)}\n"


def test_git_gets_no_token_for_another_host(near: Osmosis):
    done = near("auth", "git-credential", "get", stdin="protocol=https\nhost=evil.example\n\n")
    assert done.code == 1
    assert done.out == ""


@pytest.mark.parametrize("action", ["store", "erase"])
def test_git_cannot_store_or_erase(near: Osmosis, action: str):
    done = near("auth", "git-credential", action, stdin="protocol=http\nhost=x\n")
    assert (done.code, done.out) == (0, "")


STARTED = {
    "device_code": "d",
    "user_code": "ABCD-EFGH",
    "verification_uri": "http://127.0.0.1/device",
    "expires_in": 60,
    "interval": 0,
}


def test_a_browser_login_shows_the_code_and_waits_for_the_approval(
    osmosis: Osmosis, server: Answering
):
    server.answer(200, STARTED)
    server.answer(400, {"error": "authorization_pending"})
    user = {"id": "u", "email": "ada@example.test", "name": None}
    server.answer(200, {"token": "canary", "token_id": "t", "user": user})
    done = osmosis("auth", "login", "--platform", server.url)
    assert done.code == 0, done
    assert "ABCD-EFGH" in done.err
    assert "ada@example.test" in done.out
    assert "canary" not in done.out + done.err
    assert "canary" in credentials_path().read_text()


@pytest.mark.parametrize(
    ("reason", "told"), [("access_denied", "refused"), ("expired_token", "expired")]
)
def test_a_browser_login_that_is_refused_says_so(
    osmosis: Osmosis, server: Answering, reason: str, told: str
):
    server.answer(200, STARTED)
    server.answer(400, {"error": reason})
    done = osmosis("auth", "login", "--platform", server.url)
    assert done.code == 1
    assert told in done.err
    assert not credentials_path().exists()
