"""Addresses of platforms: one spelling for each, and which may be spoken to without TLS."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit, urlunsplit

from osmosis.wire.errors import ValidationFailed

DEFAULT_PLATFORM_URL = "http://127.0.0.1:7670"
ALLOW_INSECURE_ENV = "OSMOSIS_ALLOW_INSECURE_PLATFORM_URL"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def normalize(url: str) -> str:
    """One spelling per platform: scheme and host in lower case, no default port, no final slash.

    A path prefix stays. Without a scheme it is http for loopback and https for all else.
    """
    text = url.strip()
    if not text:
        return DEFAULT_PLATFORM_URL
    if "://" not in text:
        host = urlsplit(f"//{text}").hostname or ""
        text = f"{'http' if is_loopback_host(host) else 'https'}://{text}"
    parts = urlsplit(text)
    try:
        port, host = parts.port, parts.hostname
    except ValueError:
        port, host = None, None
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not host:
        raise ValidationFailed(
            f"'{url}' is not the address of a platform.",
            hint="Write it as http://HOST:PORT or https://HOST.",
        )
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port in (None, _DEFAULT_PORTS[scheme]) else f"{shown}:{port}"
    return urlunsplit((scheme, netloc, parts.path.rstrip("/"), "", ""))


def is_loopback_host(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_loopback(url: str) -> bool:
    """Whether the address is of this machine and never leaves it."""
    return is_loopback_host(urlsplit(url).hostname or "")


def is_insecure(url: str) -> bool:
    """Plain http to another machine: a token would travel in the clear."""
    return urlsplit(url).scheme == "http" and not is_loopback(url)


def refuse_insecure(url: str) -> None:
    """Refuse plain http to another machine unless the user allowed it."""
    if is_insecure(url) and os.environ.get(ALLOW_INSECURE_ENV) != "1":
        raise ValidationFailed(
            f"{url} is plain http to another machine: your token would travel in the clear.",
            hint=f"Use https, or set {ALLOW_INSECURE_ENV}=1 for a network that you trust.",
            platform_code="INSECURE_PLATFORM_URL",
        )
