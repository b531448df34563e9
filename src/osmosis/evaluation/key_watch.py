"""Notices that the provider has begun to reject the model's key in the middle of a run."""

from __future__ import annotations

from collections.abc import Iterable

from osmosis.wire.errors import RunFailed
from osmosis.wire.samples import ModelCall

REJECTIONS_IN_A_ROW = 5
"""Single refusals happen (moderation, one forbidden tool); a row of them is the key."""
REJECTED_STATUSES = frozenset({401, 403})


class KeyWatch:
    """Counts rejected policy calls in the order in which samples end."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def look(self, calls: Iterable[ModelCall]) -> RunFailed | None:
        """The failure of the whole run, once the key is plainly not accepted any more."""
        for call in calls:
            if call.route != "policy":
                continue
            if call.http_status not in REJECTED_STATUSES or call.error_kind != "auth":
                self._in_a_row = 0
                continue
            self._in_a_row += 1
            if self._in_a_row >= REJECTIONS_IN_A_ROW:
                return RunFailed(
                    "model_key_rejected",
                    f"The provider has begun to reject the key of {call.model}: "
                    f"{self._in_a_row} calls in a row were answered HTTP {call.http_status}"
                    + (f" ({call.error_message})." if call.error_message else "."),
                    hint="Check or renew the key (osmosis secret set NAME), then retry the run: "
                    "the samples that are left are still pending.",
                )
        return None
