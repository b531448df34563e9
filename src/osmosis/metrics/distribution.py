"""How values are spread, in bounded room: exact while few are distinct, in narrow bins beyond.

Up to :data:`EXACT_VALUES` distinct values each is counted, and quantiles are exact. Beyond, values
fall into bins whose edges grow by a constant factor, so that a quantile is off by at most
:data:`ACCURACY` of itself (the scheme of DDSketch, Masson et al., VLDB 2019). A spread over so many
decades that it needs more than :data:`MAX_BINS` bins merges neighbours two by two (Epicoco et al.,
UDDSketch, 2020), which doubles that share. What is counted depends on the values alone, never on
their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil, exp, floor, log
from typing import Any

from osmosis.metrics.moments import Moments

EXACT_VALUES = 512
MAX_BINS = 2048
ACCURACY = 0.005
LOG_GROWTH = log((1 + ACCURACY) / (1 - ACCURACY))
# Keys of bins are whole numbers in the order of their values: 0 is zero, negative ones mirror.
KEY_OF_ONE = 100_000


@dataclass
class Distribution:
    """Values with how often each came; ``bins`` replaces ``values`` once they are too many."""

    moments: Moments = field(default_factory=Moments)
    values: dict[float, int] | None = field(default_factory=dict[float, int])
    bins: dict[int, int] = field(default_factory=dict[int, int])
    merges: int = 0
    """How often neighbouring bins were merged."""

    @property
    def count(self) -> int:
        return self.moments.count

    @property
    def exact(self) -> bool:
        """Whether every value is known, so that quantiles are exact."""
        return self.values is not None

    def add(self, value: float, times: int = 1) -> None:
        """Take in a finite value that occurs ``times`` times."""
        value += 0.0  # minus zero is zero
        self.moments.add(value, times)
        self._count(value, times)

    def take_in(self, other: Distribution) -> None:
        """Take in everything that ``other`` has; what comes out is what its values had given."""
        empty = not self.count
        self.moments.take_in(other.moments)
        if empty:
            self.values = dict(other.values) if other.values is not None else None
            self.bins, self.merges = dict(other.bins), other.merges
            return
        if other.values is not None:
            for value, times in other.values.items():
                self._count(value, times)
            return
        if self.values is not None:
            self._use_bins()
        self._merge_bins(other.merges)
        more = self.merges - other.merges
        for key, times in other.bins.items():
            merged = _merged(key, more) if more else key
            self.bins[merged] = self.bins.get(merged, 0) + times
        self._bound_bins()

    def quantiles(self, shares: Iterable[float]) -> list[float]:
        """The values below which these shares of all lie, between neighbours in proportion."""
        places = [(share, share * (self.count - 1)) for share in shares]
        ranks = {rank for _, place in places for rank in (floor(place), ceil(place))}
        at = self._at_ranks(sorted(ranks))
        found: list[float] = []
        for _, place in places:
            below, above = at[floor(place)], at[ceil(place)]
            part = place - floor(place)
            found.append(below if below == above else below * (1 - part) + above * part)
        return found

    def weighted(self) -> Iterator[tuple[float, int]]:
        """Values, or what stands for those of a bin, in ascending order with their counts."""
        if self.values is not None:
            yield from sorted(self.values.items())
            return
        for key in sorted(self.bins):
            yield self._middle(key), self.bins[key]

    def dump(self) -> dict[str, Any]:
        """As plain JSON; :meth:`load` reads it back."""
        stored: dict[str, Any] = {"moments": self.moments.dump()}
        counted = self.bins if self.values is None else self.values
        if self.values is None:
            stored["merges"] = self.merges
        stored["keys"], stored["counts"] = list(counted), list(counted.values())
        return stored

    @classmethod
    def load(cls, stored: dict[str, Any]) -> Distribution:
        moments = Moments.load(stored["moments"])
        counted = dict(zip(stored["keys"], stored["counts"], strict=True))
        if "merges" in stored:
            return cls(moments, None, counted, stored["merges"])
        return cls(moments, counted)

    def _count(self, value: float, times: int) -> None:
        if self.values is None:
            self._put(value, times)
            return
        self.values[value] = self.values.get(value, 0) + times
        if len(self.values) > EXACT_VALUES:
            self._use_bins()

    def _use_bins(self) -> None:
        kept, self.values = self.values or {}, None
        for known, count in kept.items():
            self._put(known, count)

    def _put(self, value: float, times: int) -> None:
        key = _merged(_key(value), self.merges)
        self.bins[key] = self.bins.get(key, 0) + times
        self._bound_bins()

    def _bound_bins(self) -> None:
        while len(self.bins) > MAX_BINS:
            self._merge_bins(self.merges + 1)

    def _merge_bins(self, merges: int) -> None:
        """Merge neighbours until they were merged so many times."""
        while self.merges < merges:
            self.merges += 1
            fewer: dict[int, int] = {}
            for fine, count in self.bins.items():
                coarse = _merged_once(fine)
                fewer[coarse] = fewer.get(coarse, 0) + count
            self.bins = fewer

    def _middle(self, key: int) -> float:
        """The value in a bin that is nearest to all of them, in proportion."""
        if key == 0:
            return 0.0
        low, high = self.moments.low or 0.0, self.moments.high or 0.0
        width = 2**self.merges
        # A bin holds (top / g, top]; 2 top / (1 + g) is as far from both ends in proportion.
        top = _power_of_growth(abs(key) * width - KEY_OF_ONE)
        middle = top * 2 / (1 + _power_of_growth(width))
        return min(max(middle if key > 0 else -middle, low), high)

    def _at_ranks(self, ranks: list[int]) -> dict[int, float]:
        """The values at these places in ascending order, from 0."""
        exact = self.values
        ascending = sorted((self.bins if exact is None else exact).items())
        found: dict[int, float] = {}
        waiting = iter(ranks)
        rank = next(waiting, None)
        seen = 0
        for key, count in ascending:
            seen += count
            while rank is not None and rank < seen:
                found[rank] = self._middle(int(key)) if exact is None else float(key)
                rank = next(waiting, None)
        return found


def _key(value: float) -> int:
    """The key of a value's bin before any merge."""
    if value == 0:
        return 0
    key = KEY_OF_ONE + ceil(log(abs(value)) / LOG_GROWTH)
    return key if value > 0 else -key


def _merged(key: int, merges: int) -> int:
    for _ in range(merges):
        key = _merged_once(key)
    return key


def _merged_once(key: int) -> int:
    """The key of the bin that takes in this one and its neighbour; zero stays alone."""
    return (key + 1) // 2 if key > 0 else -((1 - key) // 2)


def _power_of_growth(exponent: int) -> float:
    """A power of the growth of bins, kept within the range of floats."""
    return exp(min(max(exponent * LOG_GROWTH, -745.0), 709.0))
