"""JSON in a judge's answer, with each number kept as it was written."""

from __future__ import annotations

import json
from typing import Any, cast

MAX_OBJECTS_TRIED = 200
ENVELOPE_DEPTH = 3


class Literal(str):
    """A number as it was written, told apart from a JSON string."""


class Several:
    """The value of a key that an object names more than once."""


def object_of(text: str) -> dict[str, Any] | None:
    """The object that ``text`` is, as it stands; None when it is none. NaN stays a literal."""
    try:
        return opened(_DECODER.decode(text))
    except (ValueError, RecursionError):
        return None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if sum(is_score_key(key) for key, _ in pairs) > 1:
        found = {key: value for key, value in found.items() if not is_score_key(key)}
        found["score"] = Several()
    return found


# strict=False: models do put raw line breaks into strings.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs,
    parse_float=Literal,
    parse_int=Literal,
    parse_constant=Literal,
    strict=False,
)


def opened(value: Any) -> dict[str, Any] | None:
    """The object with the score, out of envelopes that hold nothing else."""
    for _ in range(ENVELOPE_DEPTH):
        if isinstance(value, Literal):
            return None
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = _DECODER.decode(value.strip())
            except (ValueError, RecursionError):
                return None
            continue
        if isinstance(value, list):
            elements = cast("list[Any]", value)
            if len(elements) != 1:
                return None
            value = elements[0]
            continue
        if not isinstance(value, dict):
            return None
        found = cast("dict[str, Any]", value)
        if len(found) != 1 or any(is_score_key(key) for key in found):
            return found
        value = next(iter(found.values()))
        if not isinstance(value, dict):
            return found
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def objects_in(body: str) -> list[tuple[int, int, dict[str, Any]]]:
    """(start, end, object) of each object in prose that has a score; none among too many braces."""
    found: list[tuple[int, int, dict[str, Any]]] = []
    position = body.find("{")
    for _ in range(MAX_OBJECTS_TRIED):
        if position < 0:
            return found
        try:
            value, end = _DECODER.raw_decode(body, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            inner = opened(value)
            if inner is not None and any(is_score_key(key) for key in inner):
                found.append((position, end, inner))
        position = body.find("{", end)
    return []


def is_score_key(key: str) -> bool:
    return key.strip().lower() == "score"
