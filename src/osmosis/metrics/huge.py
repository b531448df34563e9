"""Values near the ends of the range of floats, whose squares and sums lie beyond it."""

from __future__ import annotations

from math import frexp, isnan

from osmosis.metrics.intervals import FLOAT_MAX

ORDINARY = 1e100
"""Up to here the squares of values, and sums of very many of them, are finite."""


def scale_of(largest: float) -> float:
    """A power of two by which values up to ``largest`` can be divided, and squared then.

    1 for ordinary values, so that nothing changes for them.
    """
    return 2.0 ** (frexp(largest)[1] - 1) if largest > ORDINARY else 1.0


def within(value: float) -> float:
    """The value, or the greatest float where it lies beyond it."""
    return 0.0 if isnan(value) else min(max(value, -FLOAT_MAX), FLOAT_MAX)
