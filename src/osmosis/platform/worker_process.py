"""The embedded worker: a child process of the server, started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from pathlib import Path

from osmosis.platform.child import child_argv
from osmosis.platform.settings import Settings
from osmosis.process_log import relay
from osmosis.processes import ProcessRecord

MODULE = "osmosis.worker"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0
STEADY_S = 60.0
"""A worker that lived this long was fine: the next pause is the first one again."""
LINE_BYTES = 65_536
WITHHELD = ("OSMOSIS_MASTER_KEY", "OSMOSIS_DATABASE_URL", "OSMOSIS_TOKEN", "OSMOSIS_METRICS_TOKEN")
"""Variables of the server that are no business of a worker."""
WITHHELD_PREFIX = "OTEL_"
"""Traces leave from the server; the headers of their collector are a credential."""

log = logging.getLogger("osmosis.platform.worker")


class WorkerProcess:
    """Keeps one worker running until it is stopped."""

    def __init__(self, settings: Settings, url: str, *, module: str = MODULE) -> None:
        self._settings = settings
        self._url = url
        self._module = module
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running(), name="worker")

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, and SIGKILL to the whole group after the grace."""
        self._stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            _signal(process.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace_s)
            _signal(process.pid, signal.SIGKILL)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep_running(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopping:
            started = time.monotonic()
            status = await self._run_once()
            if self._stopping:
                return
            if time.monotonic() - started > STEADY_S:
                pause_s = FIRST_PAUSE_S
            log.warning(
                "The worker ended with status %s and starts again in %.1f s.", status, pause_s
            )
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _run_once(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *child_argv(self._module),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment(),
            start_new_session=True,
            limit=LINE_BYTES,
        )
        self._process = process
        file = _recorded(process.pid, self._settings.processes_dir)
        log.info("The worker runs as process %s.", process.pid)
        try:
            await _log_output(process)
            return await process.wait()
        finally:
            _signal(process.pid, signal.SIGKILL)
            if file is not None:
                file.unlink(missing_ok=True)

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in WITHHELD and not name.startswith(WITHHELD_PREFIX)
        }
        return {
            **kept,
            "OSMOSIS_DATA_DIR": str(self._settings.data_dir),
            "OSMOSIS_WORKER_URL": self._url,
            "OSMOSIS_WORKER_TOKEN_FILE": str(self._settings.worker_token_file),
            "PYTHONUNBUFFERED": "1",
        }


def _recorded(pid: int, directory: Path) -> Path | None:
    """The file of its record; None when it has ended already."""
    with contextlib.suppress(ProcessLookupError):
        return ProcessRecord.of(pid, "worker").save(directory)
    return None


async def _log_output(process: asyncio.subprocess.Process) -> None:
    """Copy the worker's lines into the log; an overlong line comes in pieces."""
    stream = process.stdout
    if stream is None:
        return
    rest = b""
    while chunk := await stream.read(LINE_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES:
            lines, rest = [*lines, rest], b""
        for line in lines:
            text = line.decode(errors="replace").rstrip()
            if text and not relay(text, log):
                log.info("worker: %s", text)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
