"""How the end of a child process is awaited."""

from __future__ import annotations

import asyncio

READ_BYTES = 65_536


async def ended(process: asyncio.subprocess.Process) -> None:
    """Wait for a process that is told to end, and read away what it still says.

    A pipe that nobody reads keeps asyncio from ever noticing the end.
    """
    await asyncio.gather(
        *(_read_away(stream) for stream in (process.stdout, process.stderr)), process.wait()
    )


async def _read_away(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(READ_BYTES):
        pass
