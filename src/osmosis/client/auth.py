"""Which platform a command speaks to, and with which token."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from osmosis.client.credentials import load_login
from osmosis.client.local_server import find_local_server, local_token
from osmosis.client.urls import DEFAULT_PLATFORM_URL, is_loopback, normalize, refuse_insecure
from osmosis.wire.errors import AuthRequired, OsmosisError

PLATFORM_ENV = "OSMOSIS_PLATFORM_URL"
TOKEN_ENV = "OSMOSIS_TOKEN"  # noqa: S105 - a variable's name
TOKEN_PLATFORM_ENV = "OSMOSIS_TOKEN_PLATFORM_URL"  # noqa: S105 - a variable's name

Source = Literal["flag", "environment", "origin", "local server", "default"]
TokenSource = Literal["environment", "login", "local server"]


@dataclass(frozen=True)
class Platform:
    """An address and how it was chosen."""

    url: str
    source: Source


@dataclass(frozen=True)
class Token:
    """A bearer token and where it came from. Never printed."""

    value: str
    source: TokenSource

    def __repr__(self) -> str:
        return f"Token(source={self.source!r})"


def find_platform(flag: str | None = None, hosted_origin: str | None = None) -> Platform:
    """The strongest of: flag, environment, the workspace's hosted origin, local server, default."""
    chosen = _choose(flag, hosted_origin)
    refuse_insecure(chosen.url)
    return chosen


def find_token(platform: Platform) -> Token:
    """The strongest of: environment, saved login, the token of a server on this machine."""
    if value := os.environ.get(TOKEN_ENV):
        _check_environment_token(platform)
        return Token(value, "environment")
    login = load_login(platform.url)
    if login and login.token and not login.expired:
        return Token(login.token, "login")
    if value := local_token(platform.url):
        return Token(value, "local server")
    if login and login.expired:
        raise AuthRequired(
            f"Your login at {platform.url} has expired.", hint="Run `osmosis auth login`."
        )
    if login and login.token is None:
        raise AuthRequired(
            f"The login at {platform.url} is kept in the system keyring by another program.",
            hint="Run `osmosis auth login` here.",
        )
    raise _not_logged_in(platform)


def _not_logged_in(platform: Platform) -> AuthRequired:
    server = find_local_server() if is_loopback(platform.url) else None
    if is_loopback(platform.url) and (server is None or not server.alive):
        return AuthRequired(
            f"No server of yours runs on this machine, and you are not logged in at "
            f"{platform.url}.",
            hint="Start one with `osmosis server start`.",
        )
    hint = "Run `osmosis auth login`."
    if server and server.alive:
        hint = f"Your server on this machine is {server.url}. {hint}"
    return AuthRequired(f"You are not logged in at {platform.url}.", hint=hint)


def _choose(flag: str | None, hosted_origin: str | None) -> Platform:
    if flag:
        return Platform(normalize(flag), "flag")
    if value := os.environ.get(PLATFORM_ENV, "").strip():
        return Platform(normalize(value), "environment")
    if hosted_origin:
        return Platform(normalize(hosted_origin), "origin")
    server = find_local_server()
    if server and server.alive:
        return Platform(server.url, "local server")
    return Platform(DEFAULT_PLATFORM_URL, "default")


def _check_environment_token(platform: Platform) -> None:
    """A token from the environment goes to no platform that the user did not name.

    A cloned repository's origin may point anywhere, so it must not choose who gets the token.
    """
    declared = os.environ.get(TOKEN_PLATFORM_ENV, "").strip()
    if declared:
        if normalize(declared) != platform.url:
            raise _refused(
                "ENV_TOKEN_PLATFORM_MISMATCH",
                f"{TOKEN_ENV} is for {normalize(declared)}, not for {platform.url}.",
                f"Set {TOKEN_PLATFORM_ENV}={platform.url} if that is right.",
            )
    elif platform.source == "origin" and not is_loopback(platform.url):
        raise _refused(
            "ENV_TOKEN_PLATFORM_REQUIRED",
            f"{TOKEN_ENV} is set, but not for which platform it is.",
            f"Set {TOKEN_PLATFORM_ENV}={platform.url} to send it there.",
        )


def _refused(code: str, message: str, hint: str) -> OsmosisError:
    error = OsmosisError(message, hint=hint)
    error.code = code
    return error
