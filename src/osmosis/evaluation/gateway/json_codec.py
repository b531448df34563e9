"""JSON of model calls: orjson, and the standard library where orjson is too strict.

Datasets do hold lone surrogates, which Python clients send as ``\\ud800``; orjson refuses them in
both directions. NaN and infinity are refused by both.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import orjson


def loads(data: bytes | str) -> Any:
    """Parse, or raise ValueError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def dumps(value: Any) -> bytes:
    """Serialise compactly, or raise ValueError or TypeError."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
