"""Which call of which sample a request is: what keeps equal requests of different samples apart."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from osmosis.evaluation.gateway.fingerprint import Fingerprint


class Place(NamedTuple):
    """A sample, told apart from the others of its dataset: also in another run over the same."""

    source_row: int
    run_index: int


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a sample. ``number`` counts the calls of its route from 0; ``nth`` tells how
    many equal requests of the sample have an answer already, or are getting one."""

    place: Place
    fingerprint: Fingerprint
    number: int
    nth: int


class Askings:
    """Counts the requests of one session on one route."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._made = 0
        self._taken: defaultdict[str, set[int]] = defaultdict(set)

    def ask(self, fingerprint: Fingerprint) -> Asked:
        taken = self._taken[fingerprint.digest]
        nth = len(taken)
        if nth in taken:  # an earlier one failed and gave its number back
            nth = next(number for number in range(nth) if number not in taken)
        taken.add(nth)
        self._made += 1
        return Asked(self._place, fingerprint, self._made - 1, nth)

    def unanswered(self, asked: Asked) -> None:
        """The request failed: the next equal one takes its number, as in a run without failure."""
        self._taken[asked.fingerprint.digest].discard(asked.nth)
