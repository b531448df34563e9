"""Starting a process of user code: fenced in, in a group of its own, bound to our life."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from osmosis.evaluation.process_life import die_with_parent
from osmosis.evaluation.sandbox import Network, Sandbox

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


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
    stdout: int,
    stderr: int,
) -> asyncio.subprocess.Process:
    """Start ``argv`` with exactly ``env``; output goes to the two descriptors.

    The process leads a session and group of its own and gets SIGKILL when the calling thread
    ends.
    """
    if sandbox.name == "none":
        return await asyncio.create_subprocess_exec(
            *die_with_parent(list(argv)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
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
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env={"PATH": SYSTEM_PATH},
            cwd="/",
            start_new_session=True,
            pass_fds=(descriptor,),
        )
    finally:
        os.close(descriptor)
