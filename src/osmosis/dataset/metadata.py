"""What metadata must keep over a whole dataset: no empty objects, one JSON type per key path."""

from __future__ import annotations

import math
from typing import Any

from osmosis.dataset.errors import CellProblem
from osmosis.dataset.jsonl_rows import json_type
from osmosis.dataset.rows import METADATA

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MAX_PATHS = 100_000
MAX_DEPTH = 100


class MetadataShape:
    """Remembers the type that each key path had first. Int and float are one; null fits all.

    Keys of objects inside arrays are paths too (``steps[].tool``); an array's own elements may
    mix scalars.
    """

    def __init__(self) -> None:
        self._types: dict[str, tuple[str, int]] = {}

    def check(self, metadata: dict[str, Any], row: int) -> CellProblem | None:
        """The first mistake of this row (counted from 0), or None."""
        try:
            for key, value in metadata.items():
                self._check(key, value, row, 1)
        except CellProblem as problem:
            return problem
        return None

    def _check(self, path: str, value: Any, row: int, depth: int) -> None:
        if value is None:
            return
        if depth > MAX_DEPTH:
            raise _problem(f"is nested more than {MAX_DEPTH} levels deep.")
        self._remember(path, json_type(value), row)
        self._check_value(path, value, row, depth)

    def _check_value(self, path: str, value: Any, row: int, depth: int) -> None:
        if isinstance(value, dict):
            if not value:
                raise _problem(
                    f"'{path}' is an empty object.", "Leave the key out, or write null instead."
                )
            for key, item in value.items():
                self._check(f"{path}.{key}", item, row, depth + 1)
        elif isinstance(value, list):
            if depth > MAX_DEPTH:
                raise _problem(f"is nested more than {MAX_DEPTH} levels deep.")
            for item in value:
                self._check_value(f"{path}[]", item, row, depth + 1)
        elif isinstance(value, float) and not math.isfinite(value):
            raise _problem(f"'{path}' is not a finite number.")
        elif isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
            raise _problem(
                f"'{path}' does not fit a signed 64-bit integer.", "Write it as a string."
            )

    def _remember(self, path: str, kind: str, row: int) -> None:
        known = self._types.get(path)
        if known is None:
            if len(self._types) >= MAX_PATHS:
                raise _problem(
                    f"uses more than {MAX_PATHS:,} different keys over all rows.",
                    "Put what varies into values, not into keys.",
                )
            self._types[path] = (kind, row)
        elif known[0] != kind:
            raise _problem(
                f"'{path}' is {kind} here but {known[0]} in row {known[1]}.",
                "Keep one type per key over all rows.",
            )


def _problem(message: str, hint: str | None = None) -> CellProblem:
    return CellProblem(message, column=METADATA, hint=hint)
