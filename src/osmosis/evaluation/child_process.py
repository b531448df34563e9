"""Starting a process of user code: fenced in, in a group of its own, bound to our life."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from osmosis.evaluation.process_life import die_with_parent
from osmosis.evaluation.sandbox import Network, Sandbox

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

OOM_SCORE = 800
"""When memory runs out the kernel takes user code first, not the server or a shard."""

MOST_PROCESSES = 16_384
"""Processes and threads of the user's account that user code may bring about. The kernel counts
them per namespace (Linux 5.14), and does not hold the superuser to it."""

_LIMITS = f"""
ulimit -c 0
{{ ulimit -u {MOST_PROCESSES} || ulimit -p {MOST_PROCESSES}; }} 2>/dev/null
echo {OOM_SCORE} 2>/dev/null > /proc/self/oom_score_adj
exec "$@"
"""
"""No core files either: they would hold the run's secrets."""


async def spawn(
    sandbox: Sandbox,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    readable: Iterable[Path] = (),
    writable: Iterable[Path] = (),
    hidden: Iterable[Path] = (),
    network: Network = "on",
    pass_fds: Sequence[int] = (),
    stdout: int,
    stderr: int,
) -> asyncio.subprocess.Process:
    """Start ``argv`` with exactly ``env``; output goes to the two descriptors. It inherits
    ``pass_fds`` under their numbers.

    The process leads a session and group of its own and gets SIGKILL when the calling thread
    ends.
    """
    if sandbox.name == "none":
        return await asyncio.create_subprocess_exec(
            *die_with_parent(limited(argv)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    descriptor = sandbox.environment_file(env)
    try:
        command = sandbox.wrap(
            argv,
            readable=readable,
            writable=writable,
            hidden=hidden,
            network=network,
            cwd=cwd,
            env_fd=descriptor,
        )
        if sandbox.name == "unshare":  # bwrap sees to it by itself
            command = die_with_parent(command)
        command = limited(command)
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env={"PATH": SYSTEM_PATH},
            cwd="/",
            start_new_session=True,
            pass_fds=(descriptor, *pass_fds),
        )
    finally:
        os.close(descriptor)


def limited(argv: Sequence[str]) -> list[str]:
    """``argv`` under the limits that all user code has, whatever fence stands around it."""
    return ["/bin/sh", "-c", _LIMITS, "sh", *argv]
