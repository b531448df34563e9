"""Sums of floats without rounding: count, mean, spread and extremes of a stream of values.

A float is a whole number of 2^-1074, so sums of values and of their squares are kept as whole
numbers of that unit and of its square. Nothing is lost on the way: the mean is the correctly
rounded one, and neither it nor the spread depends on the order in which values came or on how
they were split up before.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ldexp, sqrt
from typing import Any

UNIT_BITS = 1074
"""The smallest positive float is 2^-1074; every finite float is a multiple of it."""


def units(value: float) -> int:
    """A finite float as a whole number of 2^-1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (UNIT_BITS + 1 - denominator.bit_length())


@dataclass
class Moments:
    """Values seen so far; ``total`` and ``squares`` are in units of 2^-1074 and of its square."""

    count: int = 0
    total: int = 0
    squares: int = 0
    low: float | None = None
    high: float | None = None

    def add(self, value: float, times: int = 1) -> None:
        """Take in a finite value that occurs ``times`` times."""
        amount = units(value)
        self.count += times
        self.total += amount * times
        self.squares += amount * amount * times
        if self.low is None or value < self.low:
            self.low = value
        if self.high is None or value > self.high:
            self.high = value

    def take_in(self, other: Moments) -> None:
        """Take in everything that ``other`` has."""
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        if other.low is not None and (self.low is None or other.low < self.low):
            self.low = other.low
        if other.high is not None and (self.high is None or other.high > self.high):
            self.high = other.high

    def mean(self) -> float:
        """The correctly rounded mean of at least one value."""
        return self.total / (self.count << UNIT_BITS)

    def std(self, *, ddof: int = 0) -> float:
        """The standard deviation: of a population with ``ddof`` 0, of a sample with 1."""
        if self.count <= ddof:
            return 0.0
        spread = self.count * self.squares - self.total * self.total
        return root_of_ratio(spread, (self.count * (self.count - ddof)) << (2 * UNIT_BITS))

    def dump(self) -> list[Any]:
        """As plain JSON; :meth:`load` reads it back."""
        return [self.count, pack(self.total), pack(self.squares), self.low, self.high]

    @classmethod
    def load(cls, stored: list[Any]) -> Moments:
        count, total, squares, low, high = stored
        return cls(count, unpack(total), unpack(squares), low, high)


def root_of_ratio(numerator: int, denominator: int) -> float:
    """√(numerator ÷ denominator) of whole numbers far beyond the range of floats."""
    if numerator <= 0:
        return 0.0
    shift = (numerator.bit_length() - denominator.bit_length()) & ~1
    ratio = numerator / (denominator << shift) if shift > 0 else (numerator << -shift) / denominator
    return ldexp(sqrt(ratio), shift // 2)


def pack(value: int) -> str:
    """A long whole number as text: hexadecimal, and how many zero bits it ends in."""
    zeros = (value & -value).bit_length() - 1 if value else 0
    return f"{value >> zeros:x}.{zeros}"


def unpack(text: str) -> int:
    """The number that :func:`pack` wrote."""
    digits, _, zeros = text.partition(".")
    return int(digits, 16) << int(zeros)
