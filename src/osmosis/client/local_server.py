"""The server on this machine: what it writes beside its data, so that a client finds it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from osmosis.client.urls import is_loopback, normalize
from osmosis.processes import ProcessRecord
from osmosis.wire.errors import OsmosisError

DATA_DIR_ENV = "OSMOSIS_DATA_DIR"
DEFAULT_DATA_DIR = "~/.osmosis/server"
SERVER_FILE = "server.json"
TOKEN_FILE = "local-token"  # noqa: S105 - a file's name


@dataclass(frozen=True)
class LocalServer:
    """What ``server.json`` says. ``alive``: that very process still runs."""

    url: str
    pid: int
    alive: bool
    data_dir: Path
    facts: dict[str, Any]


def data_dir() -> Path:
    return Path(os.environ.get(DATA_DIR_ENV) or DEFAULT_DATA_DIR).expanduser().absolute()


def find_local_server(directory: Path | None = None) -> LocalServer | None:
    """The server recorded in the data directory, running or not; None when none ever ran."""
    directory = directory or data_dir()
    try:
        facts = json.loads((directory / SERVER_FILE).read_text("utf-8"))
        pid, url = int(facts["pid"]), normalize(str(facts["url"]))
    except (OSError, ValueError, KeyError, TypeError, OsmosisError):
        return None
    return LocalServer(url, pid, _is_that_process(pid, facts), directory, facts)


def local_token(url: str, server: LocalServer | None = None) -> str | None:
    """The token for a platform that is the server running beside us, else None.

    It is only ever sent to loopback, on the port where that process was seen to listen.
    """
    server = server or find_local_server()
    if server is None or not server.alive or not is_loopback(url):
        return None
    if urlsplit(url).port != urlsplit(server.url).port:
        return None
    try:
        return (server.data_dir / TOKEN_FILE).read_text("utf-8").strip() or None
    except OSError:
        return None


def _is_that_process(pid: int, facts: dict[str, Any]) -> bool:
    """Whether ``pid`` runs and is not another process that got the number later."""
    start_time, boot = str(facts.get("start_time")), str(facts.get("boot_id"))
    return ProcessRecord(pid, start_time, boot).is_alive()
