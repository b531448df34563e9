"""Log lines of our processes: text for a person at a terminal, JSON for everything else.

A JSON line has the keys ``time``, ``level``, ``logger`` and ``message``, then those of
:data:`FIELDS` that are known, then ``exception``. Server, worker and shard share this, so it needs
only the standard library.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any, TextIO

FIELDS = (
    "run_id",
    "run",
    "generation",
    "worker_id",
    "row_index",
    "run_index",
    "rollout_id",
    "call_id",
    "error_type",
    "error_id",
    "duration_ms",
)
"""What may be given as ``extra``: the ids of runs, samples (``rollout_id``) and calls."""
FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
FORMATS = ("auto", "text", "json")

Redact = Callable[[str], str]


class LogLines(logging.Formatter):
    """UTC times; ``redact`` sees every line before it leaves, tracebacks included."""

    converter = time.gmtime

    def __init__(self, *, as_json: bool, redact: Redact = str) -> None:
        super().__init__(FORMAT, TIME_FORMAT)
        self._as_json = as_json
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        known = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if not self._as_json:
            more = "".join(f" {name}={value}" for name, value in known.items())
            return self._redact(super().format(record) + more)
        line: dict[str, Any] = {
            "time": f"{self.formatTime(record, TIME_FORMAT)}.{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage()),
            **{name: _plain(value, self._redact) for name, value in known.items()},
        }
        if record.exc_info:
            line["exception"] = self._redact(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def as_json(wanted: str, stream: TextIO) -> bool:
    """Whether lines to ``stream`` are JSON: as ``wanted`` says, or where nobody sits before it."""
    return wanted == "json" or (wanted != "text" and not stream.isatty())


def relay(line: str, log: logging.Logger) -> bool:
    """Log a JSON line of another process of ours as its own; False when it is none."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return False
    if not isinstance(parsed, dict) or not {"level", "logger", "message"} <= parsed.keys():
        return False
    level = logging.getLevelNamesMapping().get(str(parsed["level"]).upper(), logging.INFO)
    message = str(parsed["message"])
    if exception := parsed.get("exception"):
        message = f"{message}\n{exception}"
    fields = {name: parsed[name] for name in FIELDS if name in parsed}
    log.log(level, "%s", message, extra=fields)
    return True


def _plain(value: Any, redact: Redact) -> Any:
    return value if isinstance(value, int | float | None) else redact(str(value))
