"""``python -m osmosis.worker``: see ``settings.py`` for what it is told, and how."""

from __future__ import annotations

import logging
import sys

import uvloop

from osmosis.wire.errors import OsmosisError
from osmosis.worker.loop import run_worker
from osmosis.worker.settings import load_settings


def main() -> int:
    """Work until told to end."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
    try:
        settings = load_settings()
    except OsmosisError as error:
        sys.stderr.write(f"{error.message} {error.hint or ''}\n")
        return 2
    uvloop.run(run_worker(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
