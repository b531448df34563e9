"""A shard as its worker sees it: a child process with a channel, and a group to kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ValidationError

from osmosis.processes import ProcessRecord, kill_tree
from osmosis.worker.channel import ShardJob, ShardState, frame

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

    def __init__(self, process: asyncio.subprocess.Process, record: Path | None) -> None:
        self._process = process
        self._record = record
        self._listening: asyncio.Task[None] | None = None
        self._ending = asyncio.create_task(self._end())
        self.state = ShardState()
        self.last_sign = asyncio.get_running_loop().time()

    @classmethod
    async def start(cls, records_dir: Path) -> ShardProcess:
        """A spare shard, importing what it will need."""
        process = await asyncio.create_subprocess_exec(
            *shard_argv(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=shard_environment(os.environ),
            start_new_session=True,
            limit=MAX_STATE_BYTES,
        )
        record: Path | None = None
        with contextlib.suppress(ProcessLookupError):
            record = ProcessRecord.of(process.pid, "shard").save(records_dir)
        return cls(process, record)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def give(self, job: ShardJob, on_state: Callable[[ShardState], None]) -> None:
        """Hand over a job and begin to listen."""
        self.last_sign = asyncio.get_running_loop().time()
        self._listening = asyncio.create_task(self._listen(on_state))
        await self.say(frame(job))

    async def say(self, words: bytes) -> None:
        """Words for a shard that is gone are lost, which is as good as heard."""
        stdin = self._process.stdin
        if stdin is None or not self.running:
            return
        with contextlib.suppress(ConnectionError):
            stdin.write(words)
            await stdin.drain()

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

    async def _end(self) -> int:
        status = await self._process.wait()
        kill_tree(self.pid)
        if self._listening is not None:
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._record is not None:
            self._record.unlink(missing_ok=True)
        return status

    async def _listen(self, on_state: Callable[[ShardState], None]) -> None:
        stdout = self._process.stdout
        while stdout is not None and (line := await stdout.readline()):
            try:
                self.state = ShardState.model_validate_json(line)
            except ValidationError:
                continue
            self.last_sign = asyncio.get_running_loop().time()
            on_state(self.state)


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
