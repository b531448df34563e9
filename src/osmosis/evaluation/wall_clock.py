"""The clock of timestamps: unix time, as the platform has it.

Only points in time come from here. What lasts is measured by ``time.monotonic``, for this clock
may be set at any moment, and another machine's is never the same.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

TOLERATED_S = 2.0
"""A difference that may as well be the answer's way here; it is left alone."""


class WallClock:
    """This machine's clock, moved to the platform's where the two differ."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def follow(self, ahead_s: float) -> None:
        """Run ``ahead_s`` seconds ahead of this machine's clock (behind, when negative)."""
        self._ahead_s = ahead_s if abs(ahead_s) > TOLERATED_S else 0.0

    def now(self) -> float:
        """Unix time."""
        return time.time() + self._ahead_s

    def now_text(self) -> str:
        """The same as ISO 8601, to the millisecond, for a line of a log."""
        return datetime.fromtimestamp(self.now(), UTC).isoformat(timespec="milliseconds")


wall_clock = WallClock()
"""Of this process: a shard executes runs of one platform, and a local run follows nobody."""
