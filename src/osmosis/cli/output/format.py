"""Values as people read them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

NOTHING = "-"
HUGE = 1e9
PRECISE_DIGITS = 10


def text(value: Any) -> str:
    return NOTHING if value is None or value == "" else str(value)


def name_of(reference: Any) -> str:
    """The name of a reference object as the API gives it."""
    if isinstance(reference, dict):
        for key in ("name", "file_name", "model_name"):
            if reference.get(key):
                return str(reference[key])
    return text(reference if isinstance(reference, str) else None)


def moment(value: Any) -> str:
    """An ISO time in local time, to the second."""
    parsed = parse_time(value)
    return parsed.astimezone().strftime("%Y-%m-%d %H:%M:%S") if parsed else NOTHING


def minute(value: Any) -> str:
    """An ISO time in local time, to the minute: for lists."""
    parsed = parse_time(value)
    return parsed.astimezone().strftime("%Y-%m-%d %H:%M") if parsed else NOTHING


def parse_time(value: Any) -> datetime | None:
    if not isinstance(value, str) or not value:
        return None
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None


def seconds(value: float | None) -> str:
    """A duration: ``0.8 s``, ``42 s``, ``3 m 05 s``, ``2 h 14 m``."""
    if value is None:
        return NOTHING
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m"


def milliseconds(value: Any) -> str:
    """A duration given in milliseconds: ``42 ms``, else as :func:`seconds` has it."""
    if not isinstance(value, int | float):
        return NOTHING
    return f"{value:.0f} ms" if value < 1000 else seconds(value / 1000)


def size(value: Any) -> str:
    if not isinstance(value, int | float):
        return NOTHING
    amount = float(value)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def count(value: Any) -> str:
    """A whole number with thousands apart."""
    return f"{value:,}" if isinstance(value, int) else NOTHING


def percent(value: Any) -> str:
    return f"{value * 100:.1f}%" if isinstance(value, int | float) else NOTHING


def number(value: Any, digits: int = 4) -> str:
    """A number with so many decimals; from three on, one that is not whole never looks so."""
    if not isinstance(value, int | float):
        return NOTHING
    if abs(value) >= HUGE:
        return f"{value:.{digits}g}"
    shown = f"{value + 0.0:.{digits}f}"  # minus zero is zero
    if digits > 2 and float(shown).is_integer() and not _is_whole(value):
        return f"{value:.{PRECISE_DIGITS}g}"
    return shown


def _is_whole(value: float) -> bool:
    """Whether it is a whole number, but for what sums of floats are off."""
    return float(f"{value:.{PRECISE_DIGITS}g}").is_integer()


def money(value: Any) -> str:
    """A cost in dollars. One that nobody knows is unknown, never zero."""
    if not isinstance(value, int | float):
        return "unknown"
    if 0 < value < 0.01:
        return f"${value:.4f}"
    return f"${value:,.2f}"


def plural(amount: int, word: str) -> str:
    return f"{amount:,} {word}{'' if amount == 1 else 's'}"


def printable(value: str) -> str:
    """Text that cannot steer the terminal: what user code printed may hold escape sequences."""
    return "".join(c for c in value if c in "\n\t" or c.isprintable())


def shortened(value: str, most: int) -> str:
    """The text, or its beginning with a sign that there is more."""
    return value if len(value) <= most else f"{value[: most - 1]}…"


def one_line(value: str) -> str:
    """Printable text without line breaks and tabs, for a cell."""
    return printable(value).replace("\n", " ").replace("\t", " ")
