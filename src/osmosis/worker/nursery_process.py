"""A nursery as its worker sees it: asked for a shard, it forks one (``shard_nursery.py``)."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from osmosis.evaluation.process_life import adopt_orphans
from osmosis.processes import ProcessRecord, kill_tree
from osmosis.worker.own_child import exit_status, start_child

MODULE = "osmosis.worker.shard_nursery"
LITELLM = "litellm"
"""The argument of a nursery whose shards have LiteLLM loaded."""
FORK = b"fork"
"""The only request there is; the channel of the new shard comes with it."""
PID_BYTES = 4
EXIT_UNFORKABLE = 77
"""What it has imported keeps it from forking, as it would any other."""
ANSWER_LIMIT_S = 60.0
"""For its imports and a fork; what takes longer is done without it."""


class NurseryLost(Exception):
    """The nursery gave no shard, and is no more."""


class NurseryProcess:
    """One nursery, from :meth:`start` to :meth:`kill` or its own end."""

    def __init__(
        self, process: subprocess.Popen[bytes], control: socket.socket, record: Path | None
    ) -> None:
        self._process = process
        self._control = control
        self._asking = asyncio.Lock()
        self._killed = False
        self._ending = asyncio.create_task(self._end(record))

    @classmethod
    def start(
        cls, environment: Mapping[str, str], records_dir: Path, *, litellm: bool = False
    ) -> NurseryProcess:
        """It imports from now on; a shard can be asked for at once."""
        adopt_orphans()
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.setblocking(False)
        with theirs:
            argv = [*nursery_argv(), *([LITELLM] if litellm else [])]
            process = start_child(argv, theirs, environment)
        record: Path | None = None
        with suppress(ProcessLookupError):
            record = ProcessRecord.of(process.pid, "nursery").save(records_dir)
        return cls(process, control, record)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def usable(self) -> bool:
        return not (self._killed or self._ending.done())

    async def fork(self, channel: socket.socket) -> int:
        """The pid of a shard that listens to ``channel``, a child of this process.

        Raises NurseryLost; the nursery is ended then, for its next answer might be to this request.
        """
        loop = asyncio.get_running_loop()
        async with self._asking:
            try:
                async with asyncio.timeout(ANSWER_LIMIT_S):
                    socket.send_fds(self._control, [FORK], [channel.fileno()])
                    answer = await loop.sock_recv(self._control, PID_BYTES)
                if not answer:
                    raise ConnectionResetError
            except TimeoutError as error:
                self.kill()
                raise NurseryLost(f"it did not answer within {ANSWER_LIMIT_S:g} s") from error
            except OSError as error:
                self.kill()
                raise NurseryLost("it has ended") from error
            except BaseException:
                self.kill()
                raise
        return int.from_bytes(answer, "big")

    def kill(self) -> None:
        """End it; its shards live on."""
        if self.usable:
            self._killed = True
            kill_tree(self.pid)

    async def wait(self) -> int:
        """Its exit status, once it has ended."""
        return await asyncio.shield(self._ending)

    async def _end(self, record: Path | None) -> int:
        status = await exit_status(self.pid, self._process.wait)
        async with self._asking:  # who waits for an answer hears of the end first
            self._control.close()
        if record is not None:
            record.unlink(missing_ok=True)
        return status


def nursery_argv() -> list[str]:
    """The command line of a nursery. It is told its parent, to die with it.

    ``-P``: a file in the worker's working directory is no module of ours.
    """
    return [sys.executable, "-P", "-m", MODULE, str(os.getpid())]
