"""JSONL: one JSON object per line, all with the first one's keys. Blank lines are skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from osmosis.dataset.errors import CellProblem, DatasetError
from osmosis.dataset.text_lines import TextLines

SHOWN_KEYS = 5


class JsonlReader:
    """Reads the first object at once, for its keys, and the rows when asked."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        for line, text, problem in self._lines():
            try:
                if problem is not None:
                    raise problem
                self.columns = list(parse_object(text))
            except CellProblem as problem:
                raise DatasetError.of(problem, file=name, row=0, line=line) from None
            return
        raise DatasetError("is empty; each line must hold one JSON object.", file=name)

    def rows(self) -> Iterator[tuple[int, int | None, dict[str, Any] | DatasetError]]:
        keys = set(self.columns)
        for index, (line, text, problem) in enumerate(self._lines()):
            try:
                if problem is not None:
                    raise problem
                values = parse_object(text)
                if values.keys() != keys:
                    raise _other_keys(keys, set(values))
                yield index, line, values
            except CellProblem as problem:
                error = DatasetError.of(problem, file=self._name, row=index, line=line)
                yield index, line, error

    def selected(self, source_rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        wanted = iter(source_rows)
        target = next(wanted, None)
        if target is None:
            return
        for index, (line, text, problem) in enumerate(self._lines()):
            if index != target:
                continue
            try:
                if problem is not None:
                    raise problem
                values = parse_object(text)
            except CellProblem as problem:
                raise DatasetError.of(problem, file=self._name, row=index, line=line) from None
            yield index, values
            target = next(wanted, None)
            if target is None:
                return

    def _lines(self) -> Iterator[tuple[int, str, CellProblem | None]]:
        lines = TextLines(self._path, self._name)
        for text in lines:
            problem, lines.problem = lines.problem, None
            if problem is not None or not text.isspace():
                yield lines.number, text, problem


def parse_object(text: str) -> dict[str, Any]:
    """One JSON object. NaN counts as missing; what is not JSON text raises CellProblem."""
    try:
        value = _DECODER.decode(text.strip())
    except RecursionError:
        raise CellProblem("is nested too deeply.") from None
    except ValueError as error:
        raise CellProblem(f"is not JSON: {error}.", hint=_json_hint(text)) from None
    if not isinstance(value, dict):
        raise CellProblem(
            f"must be a JSON object, not {json_type(value)}.",
            hint="Write one object per line, without an array around them.",
        )
    if "\\u" in text:
        _refuse_lone_surrogates(value)
    return value


def json_type(value: Any) -> str:
    """The JSON name of a value's type, as it reads in a sentence."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"


def _constant(name: str) -> None:
    if name != "NaN":
        raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_constant)


def _refuse_lone_surrogates(values: dict[str, Any]) -> None:
    for column, value in values.items():
        try:
            json.dumps([column, value], ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            code = ord(error.object[error.start])
            raise CellProblem(
                f"holds half of a character (the lone surrogate \\u{code:04x}).",
                column=column if column.isprintable() else None,
                hint="Write both halves of the pair, or the character itself in UTF-8.",
            ) from None


def _other_keys(expected: set[str], found: set[str]) -> CellProblem:
    parts: list[str] = []
    for label, names in (("lacks", expected - found), ("adds", found - expected)):
        if names:
            shown = ", ".join(map(repr, sorted(names)[:SHOWN_KEYS]))
            more = f" and {len(names) - SHOWN_KEYS} more" if len(names) > SHOWN_KEYS else ""
            parts.append(f"{label} {shown}{more}")
    return CellProblem(
        f"has other keys than the first row: it {' and '.join(parts)}.",
        hint="Every row must have the same keys; write null where a value is missing.",
    )


def _json_hint(text: str) -> str | None:
    start = text.lstrip()[:2]
    if start.startswith("["):
        return "Write one object per line, without an array around them."
    if start.startswith("{'") or "True" in text or "None" in text:
        return "It looks like a Python value; write it with json.dumps()."
    if text.strip() == "{":
        return "Each object must stand on one line."
    return None
