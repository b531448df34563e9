r"""What user code prints, marked with the rollout that printed it.

With ``_OSMOSIS_ROLLOUT_TAG_OUTPUT=1`` each line printed while a rollout is active goes out as
``\x1e<rollout_id>\x1e<line>\n`` in one write, so that whoever reads the process's output can
file it under the sample. Other lines stay as they are.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

TAG_VARIABLE = "_OSMOSIS_ROLLOUT_TAG_OUTPUT"
MARK = "\x1e"
LINE_MAX_CHARS = 64 * 1024

_owner: ContextVar[str] = ContextVar("osmosis_output_owner", default="")
_streams: list[TaggedStream] = []


class TaggedStream(io.TextIOBase):
    """A text stream that writes whole lines, each marked with its rollout."""

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner
        self._partial: dict[str, list[str]] = {}
        self._lengths: dict[str, int] = {}
        self._lock = threading.RLock()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._inner.encoding

    @property
    def errors(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._inner.errors

    @property
    def buffer(self) -> Any:
        return self._inner.buffer

    def fileno(self) -> int:
        return self._inner.fileno()

    def isatty(self) -> bool:
        return self._inner.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        owner = _owner.get()
        with self._lock:
            head, newline, tail = text.rpartition("\n")
            if newline:
                lines = f"{self._take(owner)}{head}"
                self._emit(owner, lines)
            if tail:
                self._keep(owner, tail)
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Bring out an unowned partial line; a rollout's line waits for its end."""
        with self._lock:
            if rest := self._take(""):
                self._inner.write(rest)
            self._inner.flush()

    def finish(self, owner: str) -> None:
        """Bring out what a rollout left without a line end."""
        with self._lock:
            if rest := self._take(owner):
                self._emit(owner, rest)

    def _keep(self, owner: str, tail: str) -> None:
        self._partial.setdefault(owner, []).append(tail)
        length = self._lengths[owner] = self._lengths.get(owner, 0) + len(tail)
        if length > LINE_MAX_CHARS:
            self._emit(owner, self._take(owner))

    def _take(self, owner: str) -> str:
        self._lengths.pop(owner, None)
        return "".join(self._partial.pop(owner, ()))

    def _emit(self, owner: str, lines: str) -> None:
        if owner:
            lead = f"{MARK}{owner}{MARK}"
            lines = lead + lines.replace("\n", f"\n{lead}")
        self._inner.write(f"{lines}\n")
        self._inner.flush()


def tag_output() -> None:
    """Wrap stdout and stderr, once, when the environment asks for it."""
    if os.environ.get(TAG_VARIABLE) != "1" or _streams:
        return
    for name in ("stdout", "stderr"):
        inner: TextIO | None = getattr(sys, name)
        if inner is None:
            continue
        if isinstance(inner, io.TextIOWrapper):
            inner.reconfigure(errors="backslashreplace")  # a print must not end a rollout
        stream = TaggedStream(inner)
        _streams.append(stream)
        setattr(sys, name, stream)
        _redirect_handlers(inner, stream)


@contextmanager
def owned_output(rollout_id: str) -> Generator[None]:
    """Attribute what is printed here, and in tasks and threads begun here, to the rollout."""
    if not _streams:
        yield
        return
    token = _owner.set(rollout_id)
    try:
        yield
    finally:
        _owner.reset(token)
        for stream in _streams:
            stream.finish(rollout_id)


def _redirect_handlers(inner: TextIO, stream: TaggedStream) -> None:
    """Log handlers made before the wrapping hold the old stream."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and handler.stream is inner:
                handler.setStream(stream)
