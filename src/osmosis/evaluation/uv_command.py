"""Running uv for one workspace: fenced in, with a scrubbed environment, its words kept.

A build backend is user code and runs beneath uv, so uv itself stands inside the fence. Writable
are only the workspace's own area (uv's cache and the environment being built, on one mount so that
files can be linked) and an empty home.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import uv as uv_package

from osmosis.evaluation.child_process import SYSTEM_PATH, spawn
from osmosis.evaluation.interpreters import Interpreter
from osmosis.evaluation.package_index import index_variables, local_paths, system_certificates
from osmosis.evaluation.plan import Sink
from osmosis.evaluation.sandbox import Sandbox
from osmosis.processes import kill_tree
from osmosis.wire.errors import RunFailed

INSTALL_STEP = "install"
HOME_PREFIX = "home-"

UV_TIMEOUT_S = 1800.0
"""One resolution or one installation; large wheels over a slow line take long."""

KEPT_LINES = 200
SHOWN_LINES = 30
LINE_CHARS = 2000

NICENESS = 5
"""An installation uses all processors; runs that are under way come first."""

_USER_INFO = re.compile(r"(://)[^/\s@]+@")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class UvFailed(Exception):
    """uv ended with an error; ``text`` is the last of what it said."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True)
class UvArea:
    """The part of a workspace's cache that uv, and so the workspace's code, may write."""

    directory: Path

    @property
    def cache(self) -> Path:
        return self.directory / "cache"

    @property
    def builds(self) -> Path:
        return self.directory / "builds"

    def prepare(self) -> None:
        """Make the directories; what user code may have put in their place is removed."""
        for path in (self.cache, self.builds):
            if path.is_symlink():
                path.unlink()
            path.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class Uv:
    """uv as one run uses it."""

    area: UvArea
    sandbox: Sandbox
    interpreter: Interpreter
    hidden: tuple[Path, ...]
    sink: Sink

    async def run(self, arguments: Sequence[str], *, cwd: Path) -> None:
        """Run to the end, each line of output to the sink; raises UvFailed."""
        binary = Path(uv_package.find_uv_bin())
        variables = index_variables()
        self.area.prepare()
        scratch = Path(tempfile.mkdtemp(prefix=HOME_PREFIX, dir=self.area.directory.parent))
        reader, writer = os.pipe()
        lines: deque[str] = deque(maxlen=KEPT_LINES)
        try:
            _copy_uv_settings(scratch)
            (scratch / "tmp").mkdir()
            try:
                process = await spawn(
                    self.sandbox,
                    [*_nice(), str(binary), *arguments],
                    env=_environment(variables, scratch, self.area),
                    cwd=cwd,
                    readable=[binary, self.interpreter.prefix, *local_paths(variables)],
                    writable=[self.area.directory, scratch],
                    hidden=self.hidden,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=writer,
                )
            finally:
                os.close(writer)
            try:
                async with asyncio.timeout(UV_TIMEOUT_S):
                    async for line in _lines(reader):
                        lines.append(line)
                        self.sink.log("info", INSTALL_STEP, line)
                    returncode = await process.wait()
            except TimeoutError:
                raise RunFailed(
                    "dependencies_failed",
                    f"Preparing the dependencies took longer than {UV_TIMEOUT_S:.0f} s. "
                    f"The last line was: {lines[-1] if lines else '(none)'}",
                    hint="A build that hangs, or an index that does not answer. Try the same with "
                    "`uv sync` in the rollout's directory.",
                ) from None
            finally:
                if process.returncode is None:
                    kill_tree(process.pid)
                    await process.wait()
        finally:
            os.close(reader)
            shutil.rmtree(scratch, ignore_errors=True)
        if returncode != 0:
            text = "\n".join(list(lines)[-SHOWN_LINES:])
            raise UvFailed(text or f"uv ended with exit code {returncode} and no message")


def _nice() -> list[str]:
    command = shutil.which("nice", path=SYSTEM_PATH)
    return [] if command is None else [command, "-n", str(NICENESS)]


async def _lines(descriptor: int) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**20)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(descriptor), "rb", 0)
    )
    try:
        while True:
            try:
                raw = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                raw = error.partial
                if not raw:
                    return
            except asyncio.LimitOverrunError as error:
                raw = await reader.read(error.consumed or 1)
            line = _clean(raw.decode("utf-8", "replace"))
            if line:
                yield line
    finally:
        transport.close()


def _clean(line: str) -> str:
    """Without colours and without what an index address may contain as credentials."""
    return _USER_INFO.sub(r"\1***@", _ESCAPES.sub("", line)).rstrip()[:LINE_CHARS]


def _environment(variables: Mapping[str, str], home: Path, area: UvArea) -> dict[str, str]:
    return {
        "LANG": "C.UTF-8",
        **system_certificates(variables),
        **variables,
        "PATH": SYSTEM_PATH,
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "UV_CACHE_DIR": str(area.cache),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
        "UV_NO_ENV_FILE": "1",
        # Linked files would let a later build change an environment through the shared cache.
        "UV_LINK_MODE": "copy",
    }


def _copy_uv_settings(home: Path) -> None:
    """The machine's own uv.toml may name its indexes; the fence hides the home that holds it."""
    directories = [os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "/etc"]
    for directory in directories:
        source = Path(directory) / "uv/uv.toml"
        if source.is_file():
            (home / ".config/uv").mkdir(parents=True)
            shutil.copyfile(source, home / ".config/uv/uv.toml")
            return
