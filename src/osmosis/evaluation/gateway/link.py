"""What aiohttp's client errors mean: no link, a broken link, or something that is not HTTP."""

from __future__ import annotations

import os
import socket
from types import TracebackType

import aiohttp
from aiohttp.connector import AddrInfoType
from yarl import URL

from osmosis.evaluation.gateway.failures import UpstreamFailure

PROBE_AFTER_IDLE_S = 60
PROBE_EVERY_S = 15
PROBES = 4
"""TCP keepalive: a peer that vanished silently is noticed after two minutes."""


class LinkFailures:
    """``with LinkFailures(url):`` turns client errors within into UpstreamFailure."""

    __slots__ = ("_url",)

    def __init__(self, url: URL) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            return
        failure = link_failure(exc, f"{self._url.host}:{self._url.port}")
        if failure is not None:
            raise failure from exc


def link_failure(error: BaseException, place: str) -> UpstreamFailure | None:
    """What a client error means, or None when ``error`` is not one."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        text = f"No trusted TLS connection to {place}: {error}"
        return UpstreamFailure("connection", text, reached=False)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        text = f"The host name of {place} cannot be resolved."
        return UpstreamFailure("connection", text, retryable=True, reached=False)
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        # asyncio says "Connect call failed (address)" where the errno says why.
        reason = os.strerror(cause.errno) if cause.errno else cause.strerror or str(cause)
        text = f"No connection to {place}: {reason}"
        return UpstreamFailure("connection", text, retryable=True, reached=False)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        text = f"No connection to {place} within the time limit."
        return UpstreamFailure("timeout", text, retryable=True, reached=False)
    if isinstance(error, TimeoutError):
        return UpstreamFailure("timeout", f"{place} did not answer in time.", retryable=True)
    if isinstance(error, aiohttp.InvalidURL):
        return UpstreamFailure("connection", "The base URL is not valid.", reached=False)
    if isinstance(error, aiohttp.ClientResponseError):
        text = f"{place} does not speak HTTP as expected: {error.message}"
        return UpstreamFailure("bad_response", text)
    if isinstance(error, aiohttp.ClientError):
        text = f"The connection to {place} broke: {error or type(error).__name__}"
        return UpstreamFailure("connection", text, retryable=True)
    return None


def socket_with_keepalive(address: AddrInfoType) -> socket.socket:
    """A socket that notices a dead peer, however long a healthy one thinks."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family=family, type=kind, proto=protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", PROBE_AFTER_IDLE_S),
        ("TCP_KEEPINTVL", PROBE_EVERY_S),
        ("TCP_KEEPCNT", PROBES),
    ):
        if hasattr(socket, option):  # absent on some systems
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return opened
