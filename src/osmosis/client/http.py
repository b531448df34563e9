"""One HTTP exchange with the platform: headers out, a JSON object or a designed error back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

import httpx

from osmosis import __version__
from osmosis.client.local_server import find_local_server
from osmosis.client.urls import is_loopback
from osmosis.wire.errors import (
    AuthRequired,
    Conflict,
    Forbidden,
    Issue,
    NotFound,
    OsmosisError,
    RateLimited,
    Unreachable,
    ValidationFailed,
)

REQUEST_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0
SHOWN_BODY_CHARS = 200
GIT_SCOPE_HEADER = "X-Osmosis-Git"
WORKSPACE_SCOPE_HEADER = "X-Osmosis-Workspace"

_ERROR_CLASSES: dict[int, type[OsmosisError]] = {
    400: ValidationFailed,
    401: AuthRequired,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    429: RateLimited,
}
_BILLING_CODES = ("BILLING_REQUIRED", "SUBSCRIPTION_REQUIRED")


class Connection:
    """A connection to one platform, with a token and at most one scope header."""

    def __init__(
        self, url: str, token: str | None = None, scope: Mapping[str, str] | None = None
    ) -> None:
        self.url = url
        self.scope = dict(scope or {})
        headers = {
            "User-Agent": f"osmosis-cli/{__version__}",
            "X-Osmosis-CLI-Version": __version__,
            "Accept": "application/json",
        }
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._client = open_client(url, headers=headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        scoped: bool = True,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> dict[str, Any]:
        """Send one request; raise what the platform refused as an :class:`OsmosisError`."""
        query = {name: value for name, value in (params or {}).items() if value is not None}
        try:
            response = self._client.request(
                method,
                f"{self.url}{path}",
                params=query or None,
                content=None if body is None else json.dumps(body, allow_nan=False).encode(),
                headers={"Content-Type": "application/json", **(self.scope if scoped else {})},
                timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            )
        except httpx.TimeoutException:
            raise Unreachable(
                f"{self.url} did not answer within {timeout_s:g} s.",
                hint="Try again; `osmosis server status` shows a server on this machine.",
            ) from None
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from None
        return read_answer(response)


def open_client(url: str, *, headers: Mapping[str, str] | None = None) -> httpx.Client:
    """An httpx client fit for ``url``: no proxy for loopback, no trust store for plain http.

    Loading the trust store takes longer than a whole command. Redirects are never followed: they
    would carry the token elsewhere.
    """
    return httpx.Client(
        headers=dict(headers or {}),
        timeout=httpx.Timeout(REQUEST_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        trust_env=not is_loopback(url),
        verify=url.startswith("https://"),
        follow_redirects=False,
    )


def unreachable(url: str, error: Exception) -> Unreachable:
    """No server there. On this machine the next step is to start one."""
    if is_loopback(url):
        server = find_local_server()
        if server and server.alive and server.url != url:
            hint = f"Your server on this machine is {server.url}; name it with --platform."
        else:
            hint = "Start one with `osmosis server start`."
        return Unreachable(f"No server answers at {url}.", hint=hint)
    return Unreachable(
        f"Cannot reach {url}: {error or type(error).__name__}.",
        hint="Check the address (`--platform`, OSMOSIS_PLATFORM_URL) and the network.",
    )


def read_answer(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of a 2xx answer, ``{}`` for an empty one; else the designed error."""
    if not response.is_success:
        raise error_of(response)
    if not response.content:
        return {}
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unreachable(
            f"{response.request.url.copy_with(query=None)} did not answer with a JSON object.",
            hint="Is this the address of an Osmosis platform?",
            details={"status_code": response.status_code},
        )
    return answer


def error_of(response: httpx.Response) -> OsmosisError:
    """The error that a non-2xx answer stands for (platform-api.md §3.0)."""
    status = response.status_code
    try:
        parsed = response.json()
    except ValueError:
        parsed = None
    body: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    hint = body.get("hint") if isinstance(body.get("hint"), str) else None
    message = _text(body) or _fallback(response)
    if hint and message.endswith(hint):
        message = message.removesuffix(hint).rstrip()
    code = body.get("code") if isinstance(body.get("code"), str) else None
    details = {k: v for k, v in body.items() if k not in ("error", "message", "hint", "issues")}
    error = _ERROR_CLASSES.get(status, OsmosisError)(
        message,
        hint=hint,
        platform_code=code,
        field=body.get("field") if isinstance(body.get("field"), str) else None,
        issues=_issues(body.get("issues")),
        details={**details, "status_code": status},
    )
    error.http_status = status
    if status == 426:
        error.code = "UPGRADE_REQUIRED"
    elif status == 403 and code in _BILLING_CODES:
        error.code = str(code)
    elif status not in _ERROR_CLASSES:
        error.code = "PLATFORM_ERROR"
    return error


def _text(body: Mapping[str, Any]) -> str | None:
    for key in ("message", "error", "detail"):
        if isinstance(body.get(key), str) and body[key]:
            return body[key]
    return None


def _fallback(response: httpx.Response) -> str:
    if 300 <= response.status_code < 400:
        return f"{response.request.url.host} redirects elsewhere; give the final address."
    if response.status_code == 401:
        return "The platform does not accept your token."
    text = " ".join(response.text.split())[:SHOWN_BODY_CHARS]
    return f"The platform answered {response.status_code}{f': {text}' if text else '.'}"


def _issues(entries: Any) -> list[Issue]:
    issues: list[Issue] = []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, str):
            issues.append(Issue(key="", message=entry))
        elif isinstance(entry, dict) and isinstance(entry.get("message"), str):
            correction = entry.get("key_correction")
            issues.append(
                Issue(
                    key=str(entry.get("key") or ""),
                    message=entry["message"],
                    key_correction=correction if isinstance(correction, str) else None,
                )
            )
    return issues
