"""Taking the port that the server listens on, and saying who has it when it is taken."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from pathlib import Path

from osmosis.wire.errors import Conflict, OsmosisError, ValidationFailed

BACKLOG = 2048
LISTEN_STATE = "0A"


def listen(host: str, port: int) -> socket.socket:
    """A bound, not yet accepting socket; raises an error that names the port and its holder."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise ValidationFailed(
            f"'{host}' is no address of this machine.",
            hint="Give --host 127.0.0.1, or an address that `ip addr` shows.",
            field="host",
        ) from None
    taken = socket.socket(family, kind, protocol)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(address)
    except OSError as error:
        taken.close()
        raise _explain(host, port, error) from None
    taken.set_inheritable(False)
    return taken


def _explain(host: str, port: int, error: OSError) -> OsmosisError:
    if error.errno == errno.EADDRINUSE:
        holder = port_holder(port)
        who = f" by {holder}" if holder else " by another process"
        return Conflict(
            f"Port {port} is in use{who}.",
            hint=f"End it, or choose another port: osmosis server start --port {port + 1}",
            platform_code="PORT_IN_USE",
            details={"port": port},
        )
    if error.errno == errno.EACCES:
        return ValidationFailed(
            f"Port {port} needs privileges that this account does not have.",
            hint="Choose a port above 1023.",
            field="port",
        )
    return ValidationFailed(f"Cannot listen on {host}:{port}: {error.strerror}.", field="host")


def port_holder(port: int) -> str | None:
    """The process that listens on a TCP port, as far as this account may see."""
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        if inodes.intersection(_open_files(process)):
            return f"'{(process / 'comm').read_text().strip()}' (pid {process.name})"
    return None


def _open_files(process: Path) -> Iterator[str]:
    try:
        entries = list((process / "fd").iterdir())
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            yield str(entry.readlink())


def _listening_inodes(port: int) -> set[str]:
    found: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTEN_STATE and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return found
