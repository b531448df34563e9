"""Running git: its own environment, bounded time and output, no configuration but ours."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from osmosis.platform.process_end import ended
from osmosis.platform.settings import Settings

READ_BYTES = 256 * 1024
END_GRACE_S = 1.0
KILL_GRACE_S = 2.0
COMMAND_TIMEOUT_S = 30.0
OUTPUT_BYTES = 32 * 1024 * 1024
ERROR_BYTES = 16 * 1024
INHERITED = (
    "PATH",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "GIT_SSL_CAINFO",
    "GIT_EXEC_PATH",
)

CONFIG: tuple[tuple[str, str], ...] = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.quotePath", "false"),
    ("safe.directory", "*"),
    ("credential.helper", ""),
    # Objects are never pruned: a run keeps its commit although its branch was force-pushed.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("receive.autogc", "false"),
    ("transfer.fsckObjects", "true"),
    # Old but harmless mistakes that real repositories carry in their history.
    ("fetch.fsck.zeroPaddedFilemode", "warn"),
    ("fetch.fsck.badTimezone", "warn"),
    ("fetch.fsck.missingSpaceBeforeDate", "warn"),
    ("receive.fsck.zeroPaddedFilemode", "warn"),
    ("receive.fsck.badTimezone", "warn"),
    ("receive.fsck.missingSpaceBeforeDate", "warn"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "30"),
)


class GitFailed(Exception):
    """git ended with an error, or was ended. ``stderr`` is for classification, not for people."""

    def __init__(self, status: int | None, stderr: str) -> None:
        super().__init__(f"git ended with status {status}" if status is not None else "timed out")
        self.status = status
        self.stderr = stderr

    @property
    def timed_out(self) -> bool:
        return self.status is None


@dataclass(frozen=True)
class Access:
    """What one git process gets beyond the usual: variables and inherited file descriptors."""

    environment: Mapping[str, str]
    descriptors: tuple[int, ...] = ()


NO_ACCESS = Access({})


def git_environment(
    settings: Settings, extra_config: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    """The whole environment of a git process: no person's or system's configuration."""
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment |= {
        "HOME": str(settings.git_dir),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_SSH_COMMAND": "false",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_OPTIONAL_LOCKS": "0",
        # The data directory may lie inside a person's own repository, whose settings are not ours.
        "GIT_CEILING_DIRECTORIES": str(settings.data_dir),
    }
    pairs = [*CONFIG, *extra_config]
    environment["GIT_CONFIG_COUNT"] = str(len(pairs))
    for number, (key, value) in enumerate(pairs):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment


async def git(
    settings: Settings,
    directory: Path | None,
    *arguments: str,
    stdin: bytes = b"",
    timeout_s: float = COMMAND_TIMEOUT_S,
    output_bytes: int = OUTPUT_BYTES,
    access: Access = NO_ACCESS,
) -> bytes:
    """What a git command prints; raises :class:`GitFailed`. Past ``output_bytes`` it is cut."""
    async with git_process(settings, directory, *arguments, access=access) as process:
        try:
            async with asyncio.timeout(timeout_s):
                output, complaint, _ = await asyncio.gather(
                    _read(process.stdout, output_bytes),
                    _read(process.stderr, ERROR_BYTES),
                    _write(process.stdin, stdin),
                )
                status = await process.wait()
        except TimeoutError:
            raise GitFailed(None, "") from None
    if status != 0:
        raise GitFailed(status, complaint.decode(errors="replace"))
    return output


@asynccontextmanager
async def git_process(
    settings: Settings, directory: Path | None, *arguments: str, access: Access = NO_ACCESS
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A git process in a group of its own, which is gone when the block ends."""
    place = ["--git-dir", str(directory)] if directory else []
    process = await asyncio.create_subprocess_exec(
        "git",
        *place,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=git_environment(settings) | dict(access.environment),
        cwd=settings.git_dir,
        pass_fds=access.descriptors,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await asyncio.shield(end_group(process))


async def end_group(process: asyncio.subprocess.Process) -> None:
    """End a process and all that it started.

    First its input ends, on which a half-received push cleans up and gives up; then SIGTERM, then
    SIGKILL.
    """
    if process.stdin is not None:
        process.stdin.close()
    for number, grace_s in ((None, END_GRACE_S), (signal.SIGTERM, KILL_GRACE_S)):
        if number is not None:
            _signal_group(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await ended(process)
                break
    _signal_group(process.pid, signal.SIGKILL)
    await ended(process)


def pipes(
    process: asyncio.subprocess.Process,
) -> tuple[asyncio.StreamWriter, asyncio.StreamReader, asyncio.StreamReader]:
    """stdin, stdout and stderr of a process that was started with all three."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise ValueError("the process was started without pipes")
    return process.stdin, process.stdout, process.stderr


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


async def _read(stream: asyncio.StreamReader | None, limit_bytes: int) -> bytes:
    """All of a stream, of which the first ``limit_bytes`` are kept."""
    kept = bytearray()
    while stream is not None and (chunk := await stream.read(READ_BYTES)):
        kept += chunk[: limit_bytes - len(kept)]
    return bytes(kept)


async def _write(stream: asyncio.StreamWriter | None, content: bytes) -> None:
    if stream is None:
        return
    # A command that reads nothing may be gone by now; uvloop refuses to write to its closed pipe.
    if content and not stream.is_closing():
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stream.write(content)
            await stream.drain()
    stream.close()
