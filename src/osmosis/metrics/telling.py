"""Which measures of a comparison a reader is shown; a program gets all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def tells(name: str, measures: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a measure, by its name in a comparison's report, says what the others do not."""
    measure = measures.get(name)
    if measure is None:
        return False
    if name == "clean_pass_rate":
        rate = measures.get("pass_rate") or {}
        return any(measure[key] != rate.get(key) for key in ("baseline", "candidate", "rows"))
    return bool(measure["baseline"] or measure["candidate"]) or name in ("pass_rate", "score")
