"""Rewards in bins of equal width, for a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from osmosis.metrics.distribution import Distribution

BINS = 20


@dataclass(frozen=True)
class Histogram:
    """``counts[i]`` rewards lie in [low + i·w, low + (i+1)·w); the last bin includes ``high``."""

    low: float
    high: float
    counts: tuple[int, ...]


def histogram(rewards: Distribution, bins: int = BINS) -> Histogram | None:
    """Bins over ``rewards``; None without any.

    Rewards that all lie in [0, 1] are drawn over [0, 1], so that two runs look alike. Where the
    distribution is not exact, a reward may stand in the bar beside its own.
    """
    low, high = rewards.moments.low, rewards.moments.high
    if low is None or high is None:
        return None
    if low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    elif low == high:
        return Histogram(low, high, (rewards.count,))
    # Halves keep the width finite for rewards near the ends of the float range.
    half_width = high / 2 - low / 2
    counts = [0] * bins
    for reward, count in rewards.weighted():
        position = (reward / 2 - low / 2) / half_width
        counts[min(bins - 1, floor(position * bins))] += count
    return Histogram(low, high, tuple(counts))


def passing_in(counts: Sequence[int], passed: int) -> list[int]:
    """How many of each bin pass, when ``passed`` of all do: those with the highest rewards."""
    found: list[int] = []
    for count in reversed(counts):
        found.append(min(count, passed))
        passed -= found[-1]
    return found[::-1]
