"""``python -m osmosis.worker``: see ``settings.py`` for what it is told, and how."""

from __future__ import annotations

import logging
import os
import sys

import uvloop

from osmosis.process_log import LEVELS, LogLines, as_json
from osmosis.wire.errors import OsmosisError
from osmosis.worker.loop import run_worker
from osmosis.worker.settings import load_settings


def main() -> int:
    """Work until told to end."""
    handler = logging.StreamHandler(sys.stderr)
    wanted = os.environ.get("OSMOSIS_LOG_FORMAT", "auto")
    handler.setFormatter(LogLines(as_json=as_json(wanted, sys.stderr)))
    level = LEVELS.get(os.environ.get("OSMOSIS_LOG_LEVEL", ""), logging.INFO)
    logging.basicConfig(level=level, handlers=[handler])
    try:
        settings = load_settings()
    except OsmosisError as error:
        sys.stderr.write(f"{error.message} {error.hint or ''}\n")
        return 2
    uvloop.run(run_worker(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
