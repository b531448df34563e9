"""How late an event loop is: small requests to it, and how long each waited for its answer."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

ASK_EVERY_S = 0.02
TIMEOUT_S = 30.0
LISTENING = "0A"


@contextmanager
def watched(url: str) -> Generator[list[float]]:
    """Asks ``url`` fifty times a second; the list has the seconds that each answer took.

    What the answer itself costs is part of it; any status will do.
    """
    taken: list[float] = []
    ended = threading.Event()
    address = urlsplit(url)

    def ask() -> None:
        connection = http.client.HTTPConnection(
            address.hostname or "127.0.0.1", address.port or 80, timeout=TIMEOUT_S
        )
        while not ended.wait(ASK_EVERY_S):
            began = time.perf_counter()
            try:
                connection.request("GET", address.path or "/")
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection.close()
                if not ended.wait(ASK_EVERY_S):
                    continue
                return
            taken.append(time.perf_counter() - began)
        connection.close()

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    try:
        yield taken
    finally:
        ended.set()
        asker.join(TIMEOUT_S)


def listening_ports(pid: int) -> list[int]:
    """The loopback ports that the process itself listens on."""
    inodes: set[str] = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
    ports: list[int] = []
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in inodes:
                ports.append(int(fields[1].rpartition(":")[2], 16))
    return ports
