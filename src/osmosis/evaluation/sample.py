"""One sample: a selected row, a run index, and what happened to its tries so far."""

from __future__ import annotations

from dataclasses import dataclass

from osmosis.wire.runner import RowItem


@dataclass(slots=True, eq=False)
class Sample:
    """Needs one winning try. Compared by identity; ``key`` is its name in results."""

    row: RowItem
    run_index: int
    tries: int = 0
    lone_deaths: int = 0
    """Times the rollout process died while this sample was the only one in it."""
    lost_tries: int = 0
    """Tries that ended without a verdict although the process lived on."""

    @property
    def key(self) -> tuple[int, int]:
        return self.row.row_index, self.run_index

    def __str__(self) -> str:
        return f"row {self.row.row_index}, run {self.run_index}"
