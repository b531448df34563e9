"""The door into a sandbox that has a network of its own (``[advanced] network = "loopback"``).

The launcher inside (``loopback_launcher.py``) makes sockets in that network and passes them out.
On one of them the gateway listens; with the others the driver connects to the rollout's server.
User code runs beside the launcher and may have taken its place, so whatever comes out is looked at
before it is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

LAUNCHER = Path(__file__).with_name("loopback_launcher.py")
MOST_DESCRIPTORS = 4
"""Of one message; more are of no launcher of ours, and the kernel drops them."""


class ModelServer(Protocol):
    """The gateway, as far as a sandbox must know it."""

    @property
    def port(self) -> int: ...

    async def serve_on(self, listener: socket.socket) -> asyncio.Server: ...


class NetworkDoor:
    """One sandbox's. Give :attr:`inner` to the process, then call :meth:`given`."""

    def __init__(self) -> None:
        self._outer, self._inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._outer.setblocking(False)
        self._turn = asyncio.Lock()
        self._owed = 0

    @property
    def inner(self) -> int:
        """The descriptor that the process inherits."""
        return self._inner.fileno()

    def launched(self, python: Path, gateway_port: int, argv: Sequence[str]) -> list[str]:
        """``argv`` behind the launcher, started by ``python``."""
        launcher = [str(python), "-I", "-S", str(LAUNCHER)]
        return [*launcher, str(self.inner), str(gateway_port), *argv]

    def given(self) -> None:
        """The process has its end; ours closes, so that its death is seen."""
        self._inner.close()

    async def listener(self) -> socket.socket:
        """The socket that listens for model calls. Raises OSError when the launcher is gone."""
        return await self._receive()

    async def socket(self) -> socket.socket:
        """A socket of that network, not connected yet. Raises OSError when the launcher is gone."""
        async with self._turn:
            if not self._owed:
                self._outer.send(b".")
                self._owed += 1
            made = await self._receive()
            self._owed -= 1
            return made

    def close(self) -> None:
        """No more sockets; those that are open stay."""
        self._inner.close()
        self._outer.close()

    async def _receive(self) -> socket.socket:
        while True:
            try:
                said, descriptors = _message(self._outer)
            except BlockingIOError:
                await _readable(self._outer)
                continue
            if not said:
                raise ConnectionResetError("the sandbox's network is gone")
            return _tcp_socket(descriptors)


def _message(channel: socket.socket) -> tuple[bytes, list[int]]:
    said, descriptors, _, _ = socket.recv_fds(channel, 1, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    return said, descriptors


def _tcp_socket(descriptors: list[int]) -> socket.socket:
    """The one descriptor of a message, if it is what was asked for."""
    for surplus in descriptors[1:]:
        os.close(surplus)
    if not descriptors:
        raise ConnectionResetError("no socket came out of the sandbox")
    try:
        made = socket.socket(fileno=descriptors[0])
    except OSError:
        os.close(descriptors[0])
        raise
    if (made.family, made.type) != (socket.AF_INET, socket.SOCK_STREAM):
        made.close()
        raise ConnectionResetError("something else than a TCP socket came out of the sandbox")
    made.setblocking(False)
    return made


async def _readable(channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(channel, _set, ready)
    try:
        await ready
    finally:
        with contextlib.suppress(OSError, ValueError):
            loop.remove_reader(channel)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
