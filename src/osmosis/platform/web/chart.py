"""The reward histogram as geometry for an inline SVG."""

from __future__ import annotations

from dataclasses import dataclass

from osmosis.metrics.histogram import Histogram, passing_in
from osmosis.platform.web.formats import number

WIDTH, HEIGHT = 480, 132
TOP, BOTTOM = 14, 22
GAP = 2


@dataclass(frozen=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    count: int
    label: str
    passing: bool


@dataclass(frozen=True)
class Chart:
    """Bars, and where the pass threshold lies when it is in view."""

    bars: list[Bar]
    threshold_x: float | None
    low: str
    high: str
    width: int = WIDTH
    height: int = HEIGHT
    base: int = HEIGHT - BOTTOM


def reward_chart(histogram: Histogram | None, threshold: float, passed: int) -> Chart | None:
    """The chart of a histogram of which ``passed`` pass; None when there is none."""
    if histogram is None:
        return None
    tallest = max(histogram.counts)
    step = WIDTH / len(histogram.counts)
    span = histogram.high / 2 - histogram.low / 2
    room = HEIGHT - TOP - BOTTOM
    bars: list[Bar] = []
    passing = passing_in(histogram.counts, passed)
    for index, count in enumerate(histogram.counts):
        low = _edge(histogram, index)
        high = _edge(histogram, index + 1)
        height = max(2.0, count / tallest * room) if count else 0.0
        bars.append(
            Bar(
                x=round(index * step + GAP / 2, 2),
                y=round(HEIGHT - BOTTOM - height, 2),
                width=round(step - GAP, 2),
                height=round(height, 2),
                count=count,
                label=f"{number(low)} to {number(high)}",
                passing=count > 0 and passing[index] == count,
            )
        )
    inside = histogram.low <= threshold <= histogram.high and span > 0
    x = round((threshold / 2 - histogram.low / 2) / span * WIDTH, 2) if inside else None
    return Chart(bars, x, number(histogram.low), number(histogram.high))


def _edge(histogram: Histogram, index: int) -> float:
    share = index / len(histogram.counts)
    return histogram.low * (1 - share) + histogram.high * share
