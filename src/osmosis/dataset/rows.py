"""From a row of a file to what a rollout receives (rollout-protocol.md §7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from osmosis.dataset.errors import CellProblem, DatasetError
from osmosis.dataset.jsonl_rows import json_type, parse_object
from osmosis.wire.runner import RowItem

SYSTEM, USER, LABEL, LABEL_ALIAS, METADATA = (
    "system_prompt",
    "user_prompt",
    "ground_truth",
    "label",
    "metadata",
)
ROW_COLUMNS = (SYSTEM, USER, LABEL, LABEL_ALIAS, METADATA)
"""The columns that mean something; every other one is kept in the file and ignored."""

METADATA_HINT = 'In CSV write it as "{""level"": 1}"; from Python use json.dumps().'


def to_row_item(
    raw: Mapping[str, Any], row_index: int, source_row: int, *, name: str | None = None
) -> RowItem:
    """The row in the wire's shape; ``source_row`` counts from 0. Raises :class:`DatasetError`."""
    try:
        system, user, label, metadata = normalise(raw)
    except CellProblem as problem:
        raise DatasetError.of(problem, file=name, row=source_row) from None
    messages: list[dict[str, Any]] = []
    if system is not None:
        messages.append({"role": "system", "content": system})
    if user is not None:
        messages.append({"role": "user", "content": user})
    return RowItem(
        row_index=row_index,
        source_row=source_row,
        initial_messages=messages,
        label=label,
        metadata=metadata,
    )


def normalise(
    raw: Mapping[str, Any],
) -> tuple[str | None, str | None, str | None, dict[str, Any] | None]:
    """(system prompt, user prompt, label, metadata), or :class:`CellProblem`."""
    system, user = text_of(raw.get(SYSTEM)), text_of(raw.get(USER))
    label = text_of(raw.get(LABEL))
    if label is None:
        label = text_of(raw.get(LABEL_ALIAS))
    if METADATA not in raw:
        if user is None:
            raise CellProblem("is empty, but every row needs a prompt.", column=USER)
        if label is None:
            column = LABEL if LABEL in raw or LABEL_ALIAS not in raw else LABEL_ALIAS
            raise CellProblem(
                "is empty, but without a 'metadata' column every row needs it for grading.",
                column=column,
            )
        return system, user, label, None
    metadata = metadata_of(raw[METADATA])
    if metadata is None and system is None and user is None:
        raise CellProblem("has neither a prompt nor metadata.")
    return system, user, label, metadata


def text_of(value: Any) -> str | None:
    """Text of a prompt or label cell; null, NaN and the empty text are absent."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, str) else str(value)


def metadata_of(value: Any) -> dict[str, Any] | None:
    """The object of a metadata cell; null, blank text and ``{}`` are absent."""
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            value = parse_object(value)
        except CellProblem as problem:
            hint = problem.hint if problem.hint and "Python" in problem.hint else METADATA_HINT
            raise CellProblem(problem.message, column=METADATA, hint=hint) from None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, dict):
        raise CellProblem(
            f"must be a JSON object, not {json_type(value)}.", column=METADATA, hint=METADATA_HINT
        )
    return value or None
