"""Which names a request may use for this server, and where an unsafe one may come from.

A page on another site can make a browser send requests here. Its host name resolves to loopback
only by DNS rebinding, so the Host header is held to known names; and a form or script of a
foreign origin shows that origin, so an unsafe method must come from our own pages when it
carries an Origin or the session cookie.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osmosis.platform.addresses import is_host_of
from osmosis.platform.errors import respond
from osmosis.platform.security.sessions import SESSION_COOKIE
from osmosis.platform.settings import Settings
from osmosis.wire.errors import Forbidden, OsmosisError, ValidationFailed

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104  compared with, never bound
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class GuardHosts:
    """Checks Host and Origin, and adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.bound_wide = not is_loopback(settings.host)
        self.public_url = settings.public_url
        self.names = {name.lower() for name in settings.allowed_hosts}
        if settings.host not in WILDCARDS:
            self.names.add(settings.host.lower())
        if settings.public_url:
            self.names.add(urlsplit(settings.public_url).hostname or "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope)
        refusal = self._refusal(request)
        if refusal is not None:
            await respond(request, refusal)(scope, receive, with_headers)
            return
        await self.app(scope, receive, with_headers)

    def _refusal(self, request: Request) -> OsmosisError | None:
        host = request.headers.get("host", "")
        if not self.allows(host):
            return ValidationFailed(
                "This server does not answer to the host name of this request.",
                hint=f"Use {self._own_address(request)}, or add the name to OSMOSIS_ALLOWED_HOSTS.",
                platform_code="HOST_NOT_ALLOWED",
            )
        if request.method not in SAFE_METHODS and not self._same_origin(request, host):
            return Forbidden(
                "This request comes from another site.",
                hint="Open the page on this server and try again.",
                platform_code="ORIGIN_NOT_ALLOWED",
            )
        return None

    def _own_address(self, request: Request) -> str:
        """An address that this server answers to, with the port that it really listens on."""
        server = request.scope.get("server")
        port = f":{server[1]}" if server and server[1] else ""
        return self.public_url or f"http://127.0.0.1{port}"

    def _same_origin(self, request: Request, host: str) -> bool:
        origin = request.headers.get("origin")
        if origin is None:
            return _lacks_origin_safely(request)
        seen = urlsplit(origin).netloc.lower()
        if self.public_url and is_host_of(host, self.public_url):
            return seen in (host.lower(), urlsplit(self.public_url).netloc.lower())
        return seen == host.lower()

    def allows(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = host_name(host)
        if not name:
            return False
        if is_loopback(name) or name in self.names:
            return True
        # Rebinding needs a name; a numeric host is the address that the client really dialled.
        return self.bound_wide and _is_ip(name)


def is_loopback(name: str) -> bool:
    """Whether a host name or address is this machine's loopback."""
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """The name of a Host header, without port and brackets, in lower case; "" when malformed."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _lacks_origin_safely(request: Request) -> bool:
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    # Every browser names the origin of a form; a session cookie without one is no browser of ours.
    return SESSION_COOKIE not in request.cookies
