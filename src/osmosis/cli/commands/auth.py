"""``osmosis auth``: log in, log out, who am I, and git's credential helper."""

from __future__ import annotations

import os
import platform as machine
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from osmosis.cli.commands.options import group, yes_flag
from osmosis.cli.output import Detail, Operation
from osmosis.cli.output.format import moment, text
from osmosis.cli.output.messages import note, warn
from osmosis.cli.output.mode import output
from osmosis.cli.output.questions import confirm
from osmosis.cli.session import session
from osmosis.client import credentials
from osmosis.client.auth import TOKEN_ENV, Platform, find_token
from osmosis.client.local_server import local_token
from osmosis.client.urls import normalize
from osmosis.wire.errors import AuthRequired, Conflict, InteractiveRequired, OsmosisError

if TYPE_CHECKING:
    from osmosis.client.api import Api
    from osmosis.client.credentials import Login

FROM_STDIN = "-"
MAX_LOGIN_WAIT_S = 900
SLOW_DOWN_S = 5
MAX_INTERVAL_S = 30

app = group("auth", "Log in to a platform, log out, show who you are.")


@app.command()
@click.option("--token", metavar="TOKEN", help="Save this token; - reads it from standard input.")
def login(token: str | None) -> Operation:
    """Log in with the browser, or save a token that you have."""
    if os.environ.get(TOKEN_ENV) and token is None:
        raise Conflict(
            f"{TOKEN_ENV} is set and would win over a saved login.", hint=f"Unset {TOKEN_ENV}."
        )
    url = session.platform.url
    previous = credentials.load_login(url)
    if token is not None:
        value = sys.stdin.readline().strip() if token == FROM_STDIN else token
        answer, source = _verified(url, value), "token"
    else:
        value, answer = _device_login(url)
        source = "device"
    saved = credentials.save_login(url, value, answer)
    if previous and previous.token and previous.token != value:
        _revoke(url, previous)
    account = _account(answer)
    return Operation(
        operation="auth.login",
        message=f"Logged in at {url} as {saved.email}.",
        resource={
            **account,
            "expires_at": saved.expires_at,
            "platform_url": url,
            "workspace": None,
            "source": source,
            "verified": True,
            "saved": True,
            "token_store": "file",
        },
    )


@app.command()
def whoami() -> Detail:
    """Show the account, the platform and the workspace that commands act on."""
    where = session.platform
    token = session.token
    with _api(where.url, token.value, _scope_if_any()) as api:
        try:
            answer = api.verify(scoped=True)
        except AuthRequired:
            raise
        except OsmosisError:
            answer = api.verify()
    user = _account(answer)
    workspace = answer.get("workspace")
    saved = credentials.load_login(where.url)
    data = {
        "account": {**user, "token_id": answer.get("token_id")},
        **user,
        "expires_at": answer.get("expires_at"),
        "platform_url": where.url,
        "source": token.source,
        "effective_source": token.source,
        "persistent_login": saved is not None,
        "workspace": workspace,
    }
    rows = [
        ("Account", f"{text(user['name'])} <{text(user['email'])}>"),
        ("Platform", f"{where.url} ({where.source})"),
        ("Login", {"local server": "the server on this machine"}.get(token.source, token.source)),
    ]
    if answer.get("expires_at"):
        rows.append(("Expires", moment(answer["expires_at"])))
    if isinstance(workspace, dict):
        rows.append(("Workspace", f"{workspace.get('name')} ({workspace.get('role')})"))
    return Detail(data=data, rows=rows)


@app.command()
@yes_flag
def logout(yes: bool) -> Operation:
    """Revoke the saved token and forget it."""
    url = session.platform.url
    env_token = bool(os.environ.get(TOKEN_ENV))
    saved = credentials.load_login(url)
    resource: dict[str, Any] = {
        "logged_in": env_token,
        "env_token_set": env_token,
        "persistent_login": False,
        "effective_source": "environment" if env_token else None,
        "platform_url": url,
    }
    if saved is None:
        return Operation(
            operation="auth.logout",
            status="noop",
            message=f"There is no saved login at {url}.",
            resource=resource,
        )
    confirm(f"Log out {saved.email} at {url}?", yes=yes, default=True)
    revoked = _revoke(url, saved)
    credentials.forget_login(url)
    return Operation(
        operation="auth.logout",
        message=f"Logged out at {url}.",
        resource={**resource, "revoked": revoked},
    )


@app.command("git-credential", hidden=True)
@click.argument("action")
def git_credential(action: str) -> None:
    """Answer git's credential protocol for repositories that a platform of ours hosts."""
    wanted = dict(
        line.rstrip("\n").split("=", 1) for line in sys.stdin if "=" in line and line.strip()
    )
    if action != "get":
        return
    url = normalize(f"{wanted.get('protocol', '')}://{wanted.get('host', '')}")
    configured = session.platform
    # The source "origin" keeps an environment token from a host that only a clone named.
    same = _authority(configured.url) == _authority(url)
    where = configured if same else Platform(url, "origin")
    token = find_token(where)
    print("username=osmosis")
    print(f"password={token.value}")


def _authority(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _api(url: str, token: str | None = None, scope: dict[str, str] | None = None) -> Api:
    # git runs the credential helper twice at every push, and the helper calls nobody.
    from osmosis.client.api import Api

    return Api(url, token, scope)


def _verified(url: str, token: str) -> dict[str, Any]:
    if not token:
        raise AuthRequired("The token is empty.")
    with _api(url, token) as api:
        return api.verify()


def _device_login(url: str) -> tuple[str, dict[str, Any]]:
    """The RFC 8628 flow: show a code, open the page, wait for the approval there."""
    if output.mode != "rich":
        raise InteractiveRequired(
            "Logging in with the browser needs a person at a terminal.",
            hint="Use `osmosis auth login --token -` and give the token on standard input.",
        )
    with _api(url) as api:
        started = api.device_authorize(machine.node() or "a terminal")
        address = started.get("verification_uri_complete") or started["verification_uri"]
        note(f"Open {address}")
        note(f"and check that it shows the code {started['user_code']}.")
        if sys.stdout.isatty():
            import webbrowser  # for the same reason

            webbrowser.open(address)
        return _poll(api, started)


def _poll(api: Api, started: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    interval = float(started["interval"])
    deadline = time.monotonic() + min(MAX_LOGIN_WAIT_S, int(started["expires_in"]))
    while time.monotonic() < deadline:
        time.sleep(interval)
        try:
            answer = api.device_token(str(started["device_code"]))
        except OsmosisError as error:
            reason = str(error.details.get("code") or error.platform_code or error.message)
            if reason == "slow_down":
                interval = min(interval + SLOW_DOWN_S, MAX_INTERVAL_S)
            elif reason != "authorization_pending":
                raise _login_ended(reason, error) from None
            continue
        return str(answer["token"]), answer
    raise AuthRequired(
        "The login was not approved in time.", hint="Run `osmosis auth login` again."
    )


def _login_ended(reason: str, error: OsmosisError) -> OsmosisError:
    texts = {
        "expired_token": "The code has expired before it was approved.",
        "access_denied": "The login was refused on the page.",
    }
    if reason in texts:
        return AuthRequired(texts[reason], hint="Run `osmosis auth login` again.")
    return error


def _revoke(url: str, saved: Login) -> bool:
    """Revoke a saved token; a failure is a warning, for the login is forgotten anyway."""
    if not saved.token:
        return False
    if saved.token == local_token(url):
        return False  # it is the server's own: every other terminal on this machine uses it
    try:
        with _api(url, saved.token) as api:
            token_id = saved.token_id or api.verify().get("token_id")
            if token_id:
                api.revoke_token(str(token_id))
    except AuthRequired:
        return True
    except OsmosisError as error:
        warn("TOKEN_REVOKE_FAILED", f"The old token could not be revoked: {error.message}")
        return False
    return True


def _account(answer: dict[str, Any]) -> dict[str, Any]:
    user = answer.get("user")
    user = user if isinstance(user, dict) else {}
    return {"email": user.get("email"), "name": user.get("name")}


def _scope_if_any() -> dict[str, str]:
    try:
        return session.scope
    except OsmosisError:
        return {}
