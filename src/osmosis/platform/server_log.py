"""The server's log: one file of JSON lines, bounded, without tokens; warnings also on standard
error, as text at a terminal."""

from __future__ import annotations

import logging
import os
import re
import sys
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler

from osmosis.platform.security.tokens import PREFIX
from osmosis.platform.settings import Settings
from osmosis.process_log import LEVELS, LogLines, as_json

TOKEN = re.compile(re.escape(PREFIX) + r"[A-Za-z0-9_-]{20,}")


def without_tokens(text: str) -> str:
    """The text with no token in it, even where a message or traceback holds one."""
    return TOKEN.sub("[REDACTED]", text)


class PrivateFile(RotatingFileHandler):
    """A rotating file that only its owner may read."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding=self.encoding)


def configure_logging(settings: Settings) -> None:
    """Send the log to ``logs/server.log``, and what a person should see to standard error."""
    # A log that cannot be written (the disk is full) is no reason for a traceback a line.
    logging.raiseExceptions = False
    wanted = settings.log_format
    file = PrivateFile(
        settings.logs_dir / "server.log",
        maxBytes=settings.log_file_bytes,
        backupCount=settings.log_files,
        encoding="utf-8",
    )
    file.setFormatter(LogLines(as_json=wanted != "text", redact=without_tokens))
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    terminal.setFormatter(LogLines(as_json=as_json(wanted, sys.stderr), redact=without_tokens))
    for name in ("osmosis", "uvicorn"):
        logger = logging.getLogger(name)
        logger.setLevel(LEVELS[settings.log_level])
        logger.propagate = False
        logger.handlers[:] = [file, terminal]
    exporter = logging.getLogger("opentelemetry")
    exporter.propagate = False
    exporter.handlers[:] = [file]
