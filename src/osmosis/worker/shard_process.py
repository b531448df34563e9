"""A shard as its worker sees it: a child process with a channel, and a group to kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from osmosis.processes import ProcessRecord, kill_tree
from osmosis.worker.channel import ShardJob, ShardState, frame
from osmosis.worker.own_child import collect_adopted, exit_status, start_child

MODULE = "osmosis.worker.shard"
KILL_WAIT_S = 5.0
WITHHELD_PREFIXES = ("OSMOSIS_", "OTEL_")
WITHHELD_PARTS = ("KEY", "SECRET", "TOKEN", "PASSW", "CREDENTIAL", "API_BASE", "BASE_URL")
NEEDED_PREFIXES = ("UV_", "PIP_")
"""Addresses of package indexes may carry credentials, and only uv gets to see them."""
LOG_PREFIX = "OSMOSIS_LOG_"
"""How and what to log is no secret."""
MAX_STATE_BYTES = 1 << 20


class ShardProcess:
    """One shard process, spare until :meth:`give`."""

    def __init__(
        self,
        pid: int,
        collect: Callable[[], int],
        channel: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        record: Path | None,
    ) -> None:
        self.pid = pid
        self._reader, self._writer = channel
        self._record = record
        self._exited = False
        self._listening: asyncio.Task[None] | None = None
        self._ending = asyncio.create_task(self._end(collect))
        self.state = ShardState()
        self.last_sign = asyncio.get_running_loop().time()

    @classmethod
    async def start(cls, records_dir: Path) -> ShardProcess:
        """A shard of its own, importing what it will need."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = start_child(shard_argv(), theirs, shard_environment(os.environ))
        return await cls._of(process.pid, process.wait, ours, records_dir)

    @classmethod
    async def forked(cls, pid: int, channel: socket.socket, records_dir: Path) -> ShardProcess:
        """The shard ``pid`` at the other end of ``channel``, which this process has adopted."""
        return await cls._of(pid, partial(collect_adopted, pid), channel, records_dir)

    @classmethod
    async def _of(
        cls, pid: int, collect: Callable[[], int], channel: socket.socket, records_dir: Path
    ) -> ShardProcess:
        record: Path | None = None
        with contextlib.suppress(ProcessLookupError):
            record = ProcessRecord.of(pid, "shard").save(records_dir)
        return cls(pid, collect, await _open(channel), record)

    @property
    def running(self) -> bool:
        return not self._exited

    async def give(self, job: ShardJob, on_state: Callable[[ShardState], None]) -> None:
        """Hand over a job and begin to listen."""
        self.last_sign = asyncio.get_running_loop().time()
        self._listening = asyncio.create_task(self._listen(on_state))
        await self.say(frame(job))

    async def say(self, words: bytes) -> None:
        """Words for a shard that is gone are lost, which is as good as heard."""
        if not self.running:
            return
        with contextlib.suppress(ConnectionError):
            self._writer.write(words)
            await self._writer.drain()

    async def wait(self) -> int:
        """The exit status, once every last word is heard; its whole group is gone then."""
        return await asyncio.shield(self._ending)

    async def kill(self) -> None:
        """End it and everything below it, now."""
        if self.running:
            kill_tree(self.pid)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_WAIT_S):
                await self.wait()

    async def _end(self, collect: Callable[[], int]) -> int:
        status = await exit_status(self.pid, collect)
        self._exited = True
        kill_tree(self.pid)
        if self._listening is not None:
            await asyncio.gather(self._listening, return_exceptions=True)
        self._writer.close()
        if self._record is not None:
            self._record.unlink(missing_ok=True)
        return status

    async def _listen(self, on_state: Callable[[ShardState], None]) -> None:
        while line := await self._reader.readline():
            try:
                self.state = ShardState.model_validate_json(line)
            except ValidationError:
                continue
            self.last_sign = asyncio.get_running_loop().time()
            on_state(self.state)


class _EveryWord(asyncio.StreamReaderProtocol):
    """A shard that ends with a word unread resets the channel; what it had said still counts."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(None)


async def _open(channel: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_STATE_BYTES)
    protocol = _EveryWord(reader)
    transport, _ = await loop.create_unix_connection(lambda: protocol, sock=channel)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def shard_argv() -> list[str]:
    """The command line of a shard. It is told its parent, to die with it.

    ``-P``: a file in the worker's working directory is no module of ours.
    """
    return [sys.executable, "-P", "-m", MODULE, str(os.getpid())]


def shard_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The worker's environment without credentials: a run brings its own, and only those count."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith((*NEEDED_PREFIXES, LOG_PREFIX))
        or not (
            name.startswith(WITHHELD_PREFIXES)
            or any(part in name.upper() for part in WITHHELD_PARTS)
        )
    }
