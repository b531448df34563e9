"""Child processes of a worker: started with nothing but a channel, and waited for."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping

CAN_FORK = sys.platform == "linux"
"""Elsewhere a process cannot adopt its grandchildren, and forks do not agree with libraries."""


def start_child(
    argv: list[str], channel: socket.socket, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """A process in a session of its own whose stdin is ``channel``.

    Not by the event loop: uvloop lets a child inherit copies of what it is given, and the child's
    own children after it. This takes some milliseconds, for a few processes of each run.
    """
    return subprocess.Popen(
        argv,
        stdin=channel.fileno(),
        stdout=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


async def exit_status(pid: int, collect: Callable[[], int]) -> int:
    """The exit code of a child, or the negative of a signal, once it has ended.

    ``collect`` waits for the child and gives its status.
    """
    if not CAN_FORK:
        return await asyncio.to_thread(collect)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return collect()


def collect_adopted(pid: int) -> int:
    """``collect`` for a child that another process had started."""
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)
