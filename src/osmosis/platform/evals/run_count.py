"""What a run's samples have come to, those that a retry keeps counted apart from the others.

Everything that is counted is a sum over the two parts, so the numbers of what a retry keeps are
known without a look at the samples.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from osmosis.metrics import distribution
from osmosis.metrics.middle import Middle
from osmosis.metrics.tally import RowTotals, SampleOutcome, Tally


class Row(NamedTuple):
    """What the samples of one row have come to: all of them, and those that a retry keeps."""

    all: RowTotals = RowTotals()
    kept: RowTotals = RowTotals()

    def plus(
        self, status: str, error_type: str | None, reward: float | None, threshold: float
    ) -> Row:
        """With one sample more."""
        kept = self.kept
        if is_kept(status, reward):
            kept = kept.plus(status, error_type, reward, threshold)
        return Row(self.all.plus(status, error_type, reward, threshold), kept)


def is_kept(status: str, reward: float | None) -> bool:
    """Whether a retry keeps such a sample: it has a grade."""
    return status == "success" and reward is not None


@dataclass
class RunCount:
    """The tally of the samples that a retry ``kept`` or would keep, and that of the ``others``.

    The rows in ``others`` are what is to be added to those in ``kept``: a row that has samples of
    both kinds leaves the one and joins another. ``middle`` is near the median reward once the
    rewards are too many to be held.
    """

    kept: Tally
    others: Tally
    middle: Middle | None = field(default=None, compare=False)

    @classmethod
    def empty(cls, pass_threshold: float, n: int) -> RunCount:
        return cls(Tally(pass_threshold, n), Tally(pass_threshold, n))

    @property
    def n(self) -> int:
        return self.kept.n

    @property
    def pass_threshold(self) -> float:
        return self.kept.pass_threshold

    @property
    def graded(self) -> int:
        """How many samples have a reward that counts."""
        return self.kept.rewards.count + self.others.rewards.count

    @property
    def needs_middle(self) -> bool:
        """Whether the rewards may be too many different ones for an exact median of their own."""
        held = [part.rewards.values for part in (self.kept, self.others)]
        distinct = sum(len(values) for values in held if values is not None)
        return None in held or distinct > distribution.EXACT_VALUES

    @property
    def skipped(self) -> bool:
        return any(cell.status == "skipped" for cell in self.others.cells)

    def add(self, sample: SampleOutcome) -> None:
        """Take in one sample. Its row, for n ≥ 2, is the caller's to move."""
        (self.kept if is_kept(sample.status, sample.reward) else self.others).add(sample)
        if self.middle is not None and sample.reward is not None and sample.status != "skipped":
            self.middle.add(sample.reward)

    def move_row(self, before: Row, after: Row) -> None:
        """Count a row as it is now, and no longer as it was; one that was empty is none."""
        self.kept.take_row(before.kept)
        self.kept.put_row(after.kept)
        self.others.take_row(before.all)
        self.others.put_row(before.kept)
        self.others.put_row(after.all)
        self.others.take_row(after.kept)

    def forget_others(self) -> None:
        """Count only what a retry keeps."""
        self.others = Tally(self.pass_threshold, self.n)
        self.middle = None

    def whole(self) -> Tally:
        """The tally of all samples."""
        whole = Tally(self.pass_threshold, self.n)
        whole.take_in(self.kept)
        whole.take_in(self.others)
        return whole

    def dump(self) -> dict[str, Any]:
        """As plain JSON; :meth:`load` reads it back."""
        middle = self.middle
        return {
            "kept": self.kept.dump(),
            "others": self.others.dump(),
            "middle": [middle.value, middle.below, middle.upto] if middle else None,
        }

    @classmethod
    def load(cls, stored: dict[str, Any]) -> RunCount:
        middle = stored["middle"]
        return cls(
            Tally.load(stored["kept"]),
            Tally.load(stored["others"]),
            Middle(*middle) if middle else None,
        )
