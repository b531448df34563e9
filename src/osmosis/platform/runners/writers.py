"""Open segment writers, one per run that records at the moment, each under its lease."""

from __future__ import annotations

from collections import OrderedDict

from osmosis.platform.evals.places import segments_dir
from osmosis.platform.segments import SegmentWriter
from osmosis.platform.settings import Settings

OPEN_WRITERS = 64


class SegmentWriters:
    """Gives the writer of a run; closes the one unused for longest when there are many."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: OrderedDict[str, SegmentWriter] = OrderedDict()
        self._leases: dict[str, str | None] = {}

    def knows(self, run_id: str, lease_token: str | None) -> bool:
        """Whether the run was last recorded under this very lease."""
        return lease_token is not None and self._leases.get(run_id) == lease_token

    def remember(self, run_id: str, lease_token: str | None) -> None:
        self._leases[run_id] = lease_token

    def of(self, run_id: str) -> SegmentWriter:
        writer = self._open.get(run_id)
        if writer is None:
            writer = self._open[run_id] = SegmentWriter(segments_dir(self._settings, run_id))
        self._open.move_to_end(run_id)
        if len(self._open) > OPEN_WRITERS:
            # A closed writer opens its file again when it is still in use elsewhere.
            oldest, unused = self._open.popitem(last=False)
            self._leases.pop(oldest, None)
            unused.close()
        return writer

    def close(self, run_id: str) -> None:
        self._leases.pop(run_id, None)
        if writer := self._open.pop(run_id, None):
            writer.close()

    def close_all(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
