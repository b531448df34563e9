"""The log of a shard: lines to its worker's standard error, written beside the event loop."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Generator
from contextlib import contextmanager
from logging.handlers import QueueHandler, QueueListener
from typing import TextIO

from osmosis.process_log import LEVELS, LogLines, Redact, as_json

QUEUED_LINES = 10_000
"""What does not fit, while nobody reads, is dropped: a log holds no run up."""
FLUSH_S = 1.0


@contextmanager
def shard_log(stream: TextIO, redact: Redact) -> Generator[None]:
    """Log to ``stream`` inside the block; secret values of the run never get there."""
    target = logging.StreamHandler(stream)
    wanted = os.environ.get("OSMOSIS_LOG_FORMAT", "auto")
    target.setFormatter(LogLines(as_json=as_json(wanted, stream), redact=redact))
    lines: queue.Queue[logging.LogRecord] = queue.Queue(QUEUED_LINES)
    listener = QueueListener(lines, target)
    logging.raiseExceptions = False
    logger = logging.getLogger("osmosis")
    logger.setLevel(LEVELS.get(os.environ.get("OSMOSIS_LOG_LEVEL", ""), logging.INFO))
    logger.addHandler(QueueHandler(lines))
    listener.start()
    try:
        yield
    finally:
        stopping = threading.Thread(target=listener.stop, daemon=True)
        stopping.start()
        stopping.join(FLUSH_S)
