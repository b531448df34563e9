"""Addresses of this server as a client should see them."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import Request


def base_url(request: Request) -> str:
    """Scheme and authority that the client used, without a trailing slash.

    Behind a proxy that ends TLS the request itself says http; when its host is that of the
    configured ``public_url``, that address is the true one.
    """
    seen = str(request.base_url).rstrip("/")
    configured: str | None = request.app.state.platform.settings.public_url
    if configured and is_host_of(urlsplit(seen).netloc, configured):
        return configured
    return seen


def public_url(request: Request, path: str) -> str:
    """The absolute address of a path of this server (``path`` begins with ``/``)."""
    return base_url(request) + path


def is_host_of(host: str, url: str) -> bool:
    """Whether a Host header is that of ``url``. Its port may be missing, as many proxies pass
    the name alone; another port is another address."""
    parts = urlsplit(url)
    return host.lower() in (
        parts.netloc.lower(),
        parts.netloc.lower().removesuffix(f":{parts.port}"),
    )
