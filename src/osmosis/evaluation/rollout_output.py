"""What a rollout process prints: told apart by sample, redacted, and bounded whatever it writes.

The SDK marks a line that belongs to a sample as ``\\x1e<rollout_id>\\x1e<line>``; everything else
belongs to the process. The pipe is always read to its end, so a child never blocks on printing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from osmosis.evaluation.plan import Sink
from osmosis.evaluation.redaction import Redactor

OUTPUT_STEP = "rollout-server"

LINE_BYTES = 8 * 1024
"""Longer lines are cut."""

REDACTION_MARGIN_BYTES = 8 * 1024
"""Kept of a long line beyond the cut until it is redacted, so that no half secret remains."""

PROCESS_LOG_BYTES = 2 * 2**20
"""Of one process's own output, in all."""

ENTRY_BYTES = 16 * 1024
"""Lines are gathered into log entries of about this size..."""

ENTRY_AGE_S = 0.1
"""...or age."""

TAIL_LINES = 60

_TAG = b"\x1e"


class OutputReader(asyncio.Protocol):
    """Reads the pipe of one rollout process; give it to ``loop.connect_read_pipe``.

    ``on_sample_output(rollout_id, text)`` gets whole redacted lines, several at a time.
    """

    def __init__(
        self, sink: Sink, redactor: Redactor, on_sample_output: Callable[[str, str], None]
    ) -> None:
        self._sink = sink
        self._redactor = redactor
        self._on_sample_output = on_sample_output
        self._rest = b""
        self._cutting = False
        self._entry: list[str] = []
        self._entry_bytes = 0
        self._logged_bytes = 0
        self._suppressed_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.closed = asyncio.Event()

    # --- asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if self._cutting and lines:
            # The end of a line whose beginning was handled when it grew too long.
            self._suppressed_bytes += len(lines.pop(0)) + 1
            self._cutting = False
        if len(self._rest) > LINE_BYTES + REDACTION_MARGIN_BYTES:
            if self._cutting:
                self._suppressed_bytes += len(self._rest)
            else:
                lines.append(self._rest)
                self._cutting = True
            self._rest = b""
        self._take(lines)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._rest and not self._cutting:
            self._take([self._rest])
        self._rest = b""
        self._flush()
        if self._suppressed_bytes:
            self._sink.log("info", OUTPUT_STEP, f"…suppressed {self._suppressed_bytes} bytes")
        self.closed.set()

    # --- lines

    def _take(self, lines: list[bytes]) -> None:
        own: list[bytes] = []
        samples: dict[bytes, list[bytes]] = {}
        for line in lines:
            if line.startswith(_TAG):
                rollout_id, tag, rest = line[1:].partition(_TAG)
                if tag:
                    samples.setdefault(rollout_id, []).append(rest)
                    continue
            own.append(line)
        for rollout_id, its in samples.items():
            text = self._clean(its)
            self.tail.extend(text[-TAIL_LINES:])
            self._on_sample_output(rollout_id.decode("utf-8", "replace"), _joined(text))
        if own:
            self._log(own)

    def _log(self, lines: list[bytes]) -> None:
        room = PROCESS_LOG_BYTES - self._logged_bytes
        kept = lines
        if room <= 0:
            # Only the last words still matter: they may tell why the process ends.
            kept = lines[-TAIL_LINES:]
            self._suppressed_bytes += sum(map(len, lines)) + len(lines)
            self.tail.extend(self._clean(kept))
            return
        size = 0
        for index, line in enumerate(lines):
            size += min(len(line), LINE_BYTES) + 1
            if size > room:
                kept = lines[:index]
                break
        text = self._clean(kept)
        self.tail.extend(text[-TAIL_LINES:])
        self._logged_bytes += size
        self._entry += text
        self._entry_bytes += size
        if len(kept) < len(lines):
            gone = lines[len(kept) :]
            self._suppressed_bytes += sum(map(len, gone)) + len(gone)
            self.tail.extend(self._clean(gone[-TAIL_LINES:]))
            self._logged_bytes = PROCESS_LOG_BYTES
            self._entry.append(
                f"…the rollout process printed more than {PROCESS_LOG_BYTES // 2**20} MiB; "
                "what follows is not kept"
            )
            self._flush()
        elif self._entry_bytes >= ENTRY_BYTES:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ENTRY_AGE_S, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._entry:
            self._sink.log("info", OUTPUT_STEP, "\n".join(self._entry))
            self._entry = []
            self._entry_bytes = 0

    def _clean(self, lines: list[bytes]) -> list[str]:
        """Decoded, redacted, then cut: in this order, or a cut could halve a secret."""
        limit = LINE_BYTES + REDACTION_MARGIN_BYTES
        raw = b"\n".join(line[:limit] if len(line) > limit else line for line in lines)
        text = raw.decode("utf-8", "replace").replace("\r", "").replace("\0", "\ufffd")
        return [
            line if len(line) <= LINE_BYTES else f"{line[:LINE_BYTES]}…"
            for line in self._redactor.text(text).split("\n")
        ]


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
