"""The rewards of a run as bars of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osmosis.cli.output import Section
from osmosis.cli.output.format import count

WIDTH = 40
BAR = "#"
FEWEST_REWARDS = 2


def histogram_section(histogram: Mapping[str, Any], passed: int) -> Section | None:
    """Each bin that holds rewards, with its bar; None where there is nothing to draw.

    ``passed``: how many of all pass. A bin with such says so: bars alone do not tell them apart.
    """
    # It takes a third of the time of a short command to load, and most draw no histogram.
    from osmosis.metrics.histogram import passing_in

    counts = [int(amount) for amount in histogram.get("counts") or []]
    if sum(counts) < FEWEST_REWARDS:
        return None
    low, high = float(histogram["low"]), float(histogram["high"])
    tallest, passing = max(counts), passing_in(counts, passed)
    rows: list[tuple[str, str]] = []
    for index, amount in enumerate(counts):
        if not amount:
            continue
        start, end = (_edge(low, high, step / len(counts)) for step in (index, index + 1))
        label = f"{start:.4g} to {end:.4g}" if start != end else f"{start:.4g}"
        bar = BAR * max(1, round(amount / tallest * WIDTH))
        partly = f" {count(passing[index])} pass" if passing[index] else ""
        passes = " pass" if passing[index] == amount else partly
        rows.append((label, f"{bar} {count(amount)}{passes}"))
    return Section("Rewards", rows)


def _edge(low: float, high: float, share: float) -> float:
    return low * (1 - share) + high * share
