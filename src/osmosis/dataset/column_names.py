"""The columns a dataset needs, and what people call them elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from osmosis.dataset.errors import DatasetError
from osmosis.dataset.rows import LABEL, LABEL_ALIAS, METADATA, ROW_COLUMNS, SYSTEM, USER
from osmosis.wire.errors import near

OTHER_NAMES = {
    USER: (
        "prompt",
        "question",
        "input",
        "query",
        "instruction",
        "problem",
        "user",
        "user_message",
        "request",
        "task",
        "text",
    ),
    LABEL: (
        "answer",
        "target",
        "expected",
        "expected_output",
        "expected_answer",
        "output",
        "solution",
        "reference",
        "reference_answer",
        "gold",
        "response",
        "completion",
        "truth",
    ),
    SYSTEM: ("system", "system_message", "instructions"),
    METADATA: ("meta", "extra_info", "info", "meta_data"),
}


def missing_columns(columns: Sequence[str], file: str) -> list[DatasetError]:
    """A mistake for each required column that is not there, with the likely one to rename."""
    if METADATA in columns:
        return []
    errors: list[DatasetError] = []
    if USER not in columns:
        errors.append(_missing(USER, columns, file))
    if LABEL not in columns and LABEL_ALIAS not in columns:
        errors.append(_missing(LABEL, columns, file))
    if errors and (candidate := candidate_for(METADATA, columns)):
        errors[0].hint = (
            f"{errors[0].hint} Or rename '{candidate}' to '{METADATA}', "
            "if each row is described by a JSON object."
        )
    return errors


def misnamed_optional(columns: Sequence[str]) -> str | None:
    """A warning when the system prompt seems to be there under another name."""
    if SYSTEM in columns:
        return None
    candidate = candidate_for(SYSTEM, columns)
    if candidate is None:
        return None
    return f"The column '{candidate}' is ignored; rename it to '{SYSTEM}' if it is one."


def candidate_for(wanted: str, columns: Sequence[str]) -> str | None:
    """The column that probably is ``wanted`` under another name."""
    plain = {_plain(c): c for c in reversed(columns) if c not in ROW_COLUMNS}
    for name in (wanted, *OTHER_NAMES[wanted]):
        if (column := plain.get(_plain(name))) is not None:
            return column
    close = near(_plain(wanted), plain)
    return plain[close] if close else None


def _missing(wanted: str, columns: Sequence[str], file: str) -> DatasetError:
    candidate = candidate_for(wanted, columns)
    found = ", ".join(columns[:12]) + (", …" if len(columns) > 12 else "")
    return DatasetError(
        f"the column '{wanted}' is missing; the file has: {found}.",
        file=file,
        hint=(
            f"Rename '{candidate}' to '{wanted}'."
            if candidate
            else f"Add it, or use a '{METADATA}' column with one JSON object per row."
        ),
    )


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())
