"""Parses JSON that user code wrote into values that strict JSON can hold again."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson

_SURROGATES = re.compile("[\ud800-\udfff]")


def loads(raw: bytes) -> Any:
    """The parsed value; ValueError when it is no JSON at all.

    What only the standard library accepts is repaired: lone surrogates become U+FFFD,
    NaN and infinities null.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _repaired(json.loads(raw))


def clean_text(text: str) -> str:
    """``text`` without lone surrogates, so that it can be encoded."""
    return text if text.isascii() else _SURROGATES.sub("�", text)


def _repaired(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean_text(key): _repaired(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_repaired(item) for item in value]
    return value
