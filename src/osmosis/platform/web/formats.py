"""Values as people read them. Every function takes None for what is not known."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

UNKNOWN = "–"
SHOWN_CHARS = 20_000
PRECISE_DIGITS = 10


def count(value: int | None) -> str:
    """12,345"""
    return UNKNOWN if value is None else f"{value:,}"


def percent(value: float | None) -> str:
    """83.3%"""
    return UNKNOWN if value is None else f"{value * 100:.1f}%"


def number(value: float | None, digits: int = 4) -> str:
    """0.25, without trailing zeros; one that is not whole never looks so"""
    if value is None:
        return UNKNOWN
    if value and (abs(value) >= 1e9 or abs(value) < 10**-digits):
        return f"{value:.3g}"
    text = f"{value:.{digits}f}"
    if float(text).is_integer() and not float(f"{value:.{PRECISE_DIGITS}g}").is_integer():
        return f"{value:.{PRECISE_DIGITS}g}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(milliseconds: float | None) -> str:
    """250 ms, 4.2 s, 3 min 05 s, 2 h 10 min"""
    if milliseconds is None:
        return UNKNOWN
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def money(value: float | None) -> str:
    """$0.0123; small amounts keep two significant digits"""
    if value is None:
        return "unknown"
    if value == 0:
        return "$0"
    return (
        f"${value:,.2f}" if value >= 1 else f"${value:.4f}" if value >= 0.001 else f"${value:.2g}"
    )


def moment(value: datetime | float | str | None) -> str:
    """2026-01-31 12:34:56 UTC, of a time, of seconds since 1970 or of ISO text"""
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        time = datetime.fromisoformat(value)
    else:
        time = datetime.fromtimestamp(value, UTC) if isinstance(value, int | float) else value
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(value: datetime) -> str:
    """12:34:56"""
    return value.astimezone(UTC).strftime("%H:%M:%S")


def shortened(text: str, limit: int = SHOWN_CHARS) -> str:
    """The text, or its beginning and how much more there is."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n… {len(text) - limit:,} more characters; the download has them all."


def content(message: Any) -> str:
    """A message of a step: text, or parts of which only text can be shown."""
    if message is None:
        return ""
    if isinstance(message, str):
        return shortened(message)
    if isinstance(message, list):
        return shortened("\n".join(_part(part) for part in message))
    return pretty(message)


def pretty(value: Any) -> str:
    """JSON with an indent; a string as it is."""
    if isinstance(value, str):
        return shortened(value)
    return shortened(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _part(part: Any) -> str:
    if isinstance(part, dict):
        if part.get("type") == "text":
            return str(part.get("text", ""))
        source = part.get("source")
        kind = source.get("media_type", "") if isinstance(source, dict) else ""
        return f"[{part.get('type', 'part')} {kind}]".replace(" ]", "]")
    return str(part)
