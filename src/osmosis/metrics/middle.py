"""A place in the order of very many values, kept while more of them come.

Of values that are too many to be held, a store can tell those next to a known place quickly, but
not those at a rank. With how many lie below the place, a rank is a number of steps away from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Middle:
    """``value``, how many values lie ``below`` it, and how many lie below or are equal: ``upto``.

    The value was one of them once; it need not be the middle any more.
    """

    value: float
    below: int
    upto: int

    def add(self, value: float) -> None:
        """One value more."""
        self.below += value < self.value
        self.upto += value <= self.value

    def steps_to(self, rank: int) -> int:
        """How many values on the value of a rank, from 0, is found: 0 for the place's own value,
        1 for the next greater value that occurs, counted as often as it does, -1 for the next
        smaller one."""
        if rank < self.below:
            return rank - self.below
        return max(0, rank - self.upto + 1)
