"""One sample: a selected row, a run index, and what happened to its tries so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from osmosis.wire.runner import RowItem
from osmosis.wire.samples import ModelCall


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
    held: bool = False
    """It was hit by a fault that others shared, and runs again: its second chance."""
    interruptions: int = 0
    """Tries that somebody else's fault ended; they are not among ``tries``."""
    interrupted_tokens: int = 0
    interrupted_cost_usd: float = 0.0

    @property
    def key(self) -> tuple[int, int]:
        return self.row.row_index, self.run_index

    def interrupted(self, calls: Iterable[ModelCall]) -> None:
        """The last try ended by no fault of this sample; what it spent is kept apart."""
        self.tries -= 1
        self.interruptions += 1
        for call in calls:
            self.interrupted_tokens += (call.prompt_tokens or 0) + (call.completion_tokens or 0)
            self.interrupted_cost_usd += call.cost_usd or 0.0

    def __str__(self) -> str:
        return f"row {self.row.row_index}, run {self.run_index}"
