"""Whether the server's disk takes what it is given; told once when that changes."""

from __future__ import annotations

import logging

from osmosis.platform.observability.metrics import Metrics

NO_ROOM = "room on the server's disk: it refused the run's results"
"""What a run waits for then, for people."""

log = logging.getLogger("osmosis.platform")


class StorageState:
    """Set by whoever writes results."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.full = False

    def failed(self) -> None:
        """A write was refused for want of room."""
        self._metrics.storage_failures.inc()
        if not self.full:
            self.full = True
            log.error(
                "The disk of the data directory is full. Runs wait, and go on when there is room."
            )

    def worked(self) -> None:
        if self.full:
            self.full = False
            log.warning("The data directory has room again; runs go on.")
