"""What the page of a comparison shows of its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from osmosis.metrics.telling import tells
from osmosis.platform.web.formats import (
    UNKNOWN,
    count,
    duration,
    money,
    number,
    percent,
    shortened,
)
from osmosis.platform.web.run_view import shown_value

MEASURES = (
    ("pass_rate", "Pass rate", "percent"),
    ("clean_pass_rate", "Clean pass rate", "percent"),
    ("score", "Mean reward", "number"),
    ("cost_usd", "Cost per sample", "money"),
    ("tokens", "Tokens per sample", "count"),
    ("duration_ms", "Time per sample", "duration"),
)
HIGHER_IS_BETTER = ("pass_rate", "clean_pass_rate", "score")
ALPHA = 0.05
SETTING_CHARS = 200


def rows_of(part: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The measures of one candidate: label, kind, and the numbers with whether it is better."""
    for name, label, kind in MEASURES:
        if not tells(name, part["measures"]):
            continue
        measure = part["measures"][name]
        p_value = measure.get("p_adjusted", measure["p_value"])
        better = None
        if p_value is not None and p_value < ALPHA:
            better = (measure["difference"] > 0) is (name in HIGHER_IS_BETTER)
        yield label, kind, {**measure, "p": p_value, "better": better}


def amount(value: float, kind: str) -> str:
    """A value as its kind is read."""
    if kind == "percent":
        return percent(value)
    if kind == "money":
        return money(value)
    if kind == "duration":
        return duration(value)
    return count(round(value)) if kind == "count" else number(value)


def signed(value: float, kind: str) -> str:
    """A difference with its sign; of rates in points."""
    sign = "−" if value < 0 else "+"
    size = abs(value)
    return f"{sign}{size * 100:.1f} pts" if kind == "percent" else f"{sign}{amount(size, kind)}"


def p_value(value: float | None) -> str:
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def setting(value: Any) -> str:
    """A setting of a run, cut where it is long."""
    return UNKNOWN if value is None else shortened(shown_value(value), SETTING_CHARS)
