"""What is told to operators when a run has come to its end, once that is committed."""

from __future__ import annotations

import logging

from osmosis.platform.db.models import Run
from osmosis.platform.platform import Platform

log = logging.getLogger("osmosis.platform.runs")


def tell_end(platform: Platform, run: Run) -> None:
    """A line in the server's log, and the root of the run's trace."""
    log.info(
        "The run ended: %s.",
        run.status,
        extra={"run_id": run.id, "run": run.name, "generation": run.generation},
    )
    platform.traces.ended(run)
