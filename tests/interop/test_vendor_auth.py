"""`osmosis auth …` of the published package, with the approval page driven over HTTP."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lab.platform import Lab
from tests.interop.vendor import Vendor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

CODE = re.compile(r"user_code=([A-Z0-9-]+)")


@pytest.fixture(scope="module")
def browser(lab: Lab) -> Iterator[httpx.Client]:
    """Somebody who is signed in to the pages by a one-time link."""
    link = lab.json("server", "link")["resource"]["url"]
    headers = {"Accept": "text/html", "Origin": lab.url}
    with httpx.Client(headers=headers, follow_redirects=True, trust_env=False) as client:
        assert client.get(link).status_code == 200
        yield client


@pytest.fixture
def logged_out(vendor: Vendor, tmp_path: Path) -> Vendor:
    return vendor.without_token(HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))


def login(vendor: Vendor, browser: httpx.Client, decision: str) -> tuple[int, str]:
    """Log in with the device flow, deciding on the page it names; exit code and output."""
    process = subprocess.Popen(
        [str(vendor.command), "auth", "login"],
        cwd=vendor.cwd,
        env={**vendor.env, "BROWSER": "true", "COLUMNS": "300"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    seen = ""
    try:
        for line in process.stdout:
            seen += line
            if found := CODE.search(line):
                page = f"{vendor.lab.url}/device"
                shown = browser.get(page, params={"user_code": found[1]})
                assert shown.status_code == 200 and found[1] in shown.text
                form = {"user_code": found[1], "decision": decision}
                assert browser.post(page, data=form).status_code == 200
                break
        seen += process.stdout.read()
        return process.wait(30), seen
    finally:
        process.kill()
        process.wait()


def test_a_device_login_lasts_until_its_logout(
    logged_out: Vendor, browser: httpx.Client, vendor: Vendor
) -> None:
    assert logged_out.fails("auth", "whoami")["code"] == "AUTH_REQUIRED"
    code, output = login(logged_out, browser, "approve")
    assert code == 0, output
    who = logged_out("auth", "whoami")["data"]
    assert who["persistent_login"] is True and who["workspace"]["name"] == "vendors"
    assert logged_out("dataset", "list")["items"] is not None

    (saved,) = Path(logged_out.env["HOME"]).rglob("credentials.json")
    token = re.search(r'"access_token": *"([^"]+)"', saved.read_text())
    assert token is not None
    left = logged_out("auth", "logout", "--yes")["resource"]
    assert left["revoked"] is True and left["logged_in"] is False
    assert logged_out.fails("auth", "whoami")["code"] == "AUTH_REQUIRED"
    refused = vendor.fails("auth", "whoami", OSMOSIS_TOKEN=token[1])
    assert refused["code"] == "AUTH_REQUIRED" and "revoked" in refused["message"].lower()


def test_a_denied_login_saves_nothing(logged_out: Vendor, browser: httpx.Client) -> None:
    code, output = login(logged_out, browser, "deny")
    assert code == 1, output
    assert logged_out.fails("auth", "whoami")["code"] == "AUTH_REQUIRED"


def test_a_token_logs_in_and_out(logged_out: Vendor, browser: httpx.Client, lab: Lab) -> None:
    api = f"{lab.url}/api/cli/device"
    asked = browser.post(f"{api}/authorize", json={"deviceName": "ci"}).json()
    form = {"user_code": asked["user_code"], "decision": "approve"}
    browser.post(f"{lab.url}/device", data=form)
    body = {"device_code": asked["device_code"]}
    token = browser.post(f"{api}/token", json=body).json()["token"]
    done = logged_out("auth", "login", "--token", token)["resource"]
    assert done["verified"] is True and done["source"] == "token" and done["token_store"] == "file"
    assert logged_out("auth", "whoami")["data"]["email"] == done["email"]
    assert logged_out("auth", "logout", "--yes")["resource"]["revoked"] is True
    wrong = logged_out.fails("auth", "login", "--token", token)
    assert wrong["code"] == "AUTH_REQUIRED"
