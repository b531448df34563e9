"""Loopback addresses: a free port, a GET, waiting until something answers."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.request
from typing import Any

POLL_S = 0.02


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def http_json(
    url: str, *, headers: dict[str, str] | None = None, body: bytes | None = None
) -> dict[str, Any]:
    """GET, or POST when there is a body; never through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, headers=headers or {}, data=body)
    with opener.open(request, timeout=30) as response:
        return json.load(response)


def wait_until_answers(url: str, process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Whether ``url`` answered before the process ended or the time was up."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            http_json(url)
            return True
        time.sleep(POLL_S)
    return False
