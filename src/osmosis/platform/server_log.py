"""The server's log: one file, bounded, without tokens; warnings also on standard error."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler

from osmosis.platform.security.tokens import PREFIX
from osmosis.platform.settings import Settings

FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"
TOKEN = re.compile(re.escape(PREFIX) + r"[A-Za-z0-9_-]{20,}")


class TokenlessFormatter(logging.Formatter):
    """UTC times, and no token even where a message or traceback holds one."""

    converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        return TOKEN.sub("[REDACTED]", super().format(record))


class PrivateFile(RotatingFileHandler):
    """A rotating file that only its owner may read."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding=self.encoding)


def configure_logging(settings: Settings) -> None:
    """Send the log to ``logs/server.log``, and what a person should see to standard error."""
    formatter = TokenlessFormatter(FORMAT, TIME_FORMAT)
    file = PrivateFile(
        settings.logs_dir / "server.log",
        maxBytes=settings.log_file_bytes,
        backupCount=settings.log_files,
        encoding="utf-8",
    )
    file.setFormatter(formatter)
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    terminal.setFormatter(formatter)
    for name in ("osmosis", "uvicorn"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.handlers[:] = [file, terminal]
