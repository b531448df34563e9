"""A figure, as the benchmark prints it: one JSON object a line."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from typing import Any


def report(name: str, value: float, unit: str, **more: Any) -> None:
    print(json.dumps({"name": name, "value": round(value, 4), "unit": unit, **more}), flush=True)


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which ``share`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)
