"""Which part of a run an evaluation executes: every ``count``-th row, from row ``index`` on.

All samples of a row are in one slice. What the slices share (samples in flight, model calls at
once) is dealt out like the rows, so that the shares add up to exactly the whole.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slice:
    """One of ``count`` slices. The default is the whole run."""

    index: int = 0
    count: int = 1

    def share(self, total: int) -> int:
        """Of ``total`` rows, or places, those that belong to this slice; 0 when there are fewer
        than slices and this one comes too late."""
        return (total + self.count - 1 - self.index) // self.count

    def holds(self, row_index: int) -> bool:
        """Whether the row belongs to this slice."""
        return row_index % self.count == self.index
