"""The server as a process: start, status, stop. Light to import; the application loads in serve().

``server.json`` in the data directory says who serves it: pid, start time and boot id (so that a
reused pid fools nobody), address and version.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from osmosis.platform.settings import Settings, env_name
from osmosis.processes import ProcessRecord
from osmosis.wire.errors import OsmosisError

HEALTH_TIMEOUT_S = 2.0
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.02
OUTPUT_SHOWN_CHARS = 2000


@dataclass(frozen=True, kw_only=True)
class ServerRecord(ProcessRecord):
    """What ``server.json`` holds."""

    url: str
    version: str
    started_at: str


@dataclass(frozen=True)
class ServerStatus:
    """What is known of the server of one data directory."""

    running: bool
    healthy: bool
    data_dir: Path
    pid: int | None = None
    url: str | None = None
    version: str | None = None
    started_at: str | None = None


def serve(settings: Settings, *, show_link: bool = True) -> None:
    """Run the server in this process until SIGINT or SIGTERM.

    ``show_link`` prints a one-time sign-in link; leave it out where output goes to a file.
    """
    from osmosis.platform.serving import run  # noqa: PLC0415  the whole application: 0.6 s

    run(settings, show_link=show_link)


def status(settings: Settings) -> ServerStatus:
    """Whether the data directory's server runs and answers."""
    record = read_record(settings)
    if record is None or not record.is_alive():
        return ServerStatus(running=False, healthy=False, data_dir=settings.data_dir)
    return ServerStatus(
        running=True,
        healthy=is_healthy(record.url),
        data_dir=settings.data_dir,
        pid=record.pid,
        url=record.url,
        version=record.version,
        started_at=record.started_at,
    )


def stop(settings: Settings, *, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """End the data directory's server; False when none runs."""
    record = read_record(settings)
    if record is None or not record.send(signal.SIGTERM):
        return False
    deadline = time.monotonic() + timeout_s
    while record.is_alive():
        if time.monotonic() > deadline:
            record.send(signal.SIGKILL)
            break
        time.sleep(POLL_S)
    return True


def start_detached(settings: Settings, *, timeout_s: float = START_TIMEOUT_S) -> ServerStatus:
    """Start the server in the background and wait until it answers.

    Returns the status of the one that runs already, if there is one.
    """
    present = status(settings)
    if present.running and present.healthy:
        return present
    settings.create_directories()
    output = settings.logs_dir / "server.out"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "osmosis.platform.server"],
            env={**os.environ, **environment(settings)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = status(settings)
        if found.healthy and found.pid == process.pid:
            return found
        if process.poll() is not None:
            break
        time.sleep(POLL_S)
    else:
        process.kill()
    said = output.read_text(errors="replace").strip()[-OUTPUT_SHOWN_CHARS:]
    raise OsmosisError(
        said or f"The server did not start within {timeout_s:g} s.",
        hint=None if said else f"Its log is {settings.logs_dir / 'server.log'}.",
        platform_code="SERVER_NOT_STARTED",
    )


def create_admin(settings: Settings, password: str, *, email: str | None = None) -> str:
    """Give an admin account a password, also beside a running server; returns its email."""
    from osmosis.platform.administration import create_admin as create  # noqa: PLC0415  see serve

    return create(settings, password, email=email)


def environment(settings: Settings) -> Mapping[str, str]:
    """The environment that gives another process these settings."""
    values: dict[str, str] = {}
    for name in type(settings).model_fields:
        value: Any = getattr(settings, name)
        if value is None:
            continue
        if isinstance(value, SecretStr):
            value = value.get_secret_value()
        values[env_name(name)] = ",".join(value) if isinstance(value, tuple) else str(value)
    return values


def read_record(settings: Settings) -> ServerRecord | None:
    try:
        return ServerRecord(**json.loads(settings.server_file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def is_healthy(url: str) -> bool:
    """Whether an Osmosis server answers at an address (asked directly, past any proxy)."""
    parts = urlsplit(url)
    try:
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=HEALTH_TIMEOUT_S
        )
        try:
            connection.request("GET", "/api/health")
            return json.loads(connection.getresponse().read()).get("status") == "ok"
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException, AttributeError):
        return False


def main() -> None:
    """The server of ``start_detached``: settings from the environment, no link in its output."""
    try:
        serve(Settings.load(), show_link=False)
    except OsmosisError as error:
        print(error.message, error.hint or "", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
