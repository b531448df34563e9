"""How long a provider asks a refused caller to wait, in whatever way it says so.

    retry-after-ms                         milliseconds
    Retry-After                            seconds, or an HTTP date
    x-ratelimit-reset-requests, -tokens    OpenAI and its kin: a duration, ``6m0s``, ``120ms``
    anthropic-ratelimit-…-reset            a timestamp
    x-ratelimit-reset                      seconds to go, or a unix time in seconds or milliseconds
    the error's text                       "try again in 6.2s", Gemini's ``"retryDelay": "34s"``

A reset only counts where the ``…-remaining`` beside it is 0: providers send the resets of all
their windows, also of those that are not the reason. A point in time is read by the provider's own
clock, where the answer's ``Date`` tells it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

NUMBER = re.compile(r"\d{1,15}(?:\.\d+)?")
DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
IN_TEXT = re.compile(
    r"(?:try|retry) again in (\d+(?:\.\d+)?) ?(ms|s)"
    r'|retryDelay\\?"\s*:\s*\\?"(\d+(?:\.\d+)?)s'
    r"|retry in (\d+(?:\.\d+)?)s",
    re.IGNORECASE,
)
WINDOWS = ("requests", "tokens", "input-tokens", "output-tokens")
A_DAY_S = 86_400.0
YEAR_2001_S, YEAR_2001_MS = 1e9, 1e12
"""From here on a plain number is a point in time."""


def retry_after_s(headers: Mapping[str, str], text: str = "") -> float | None:
    """The wait in seconds, or None when the provider names none."""
    millis = (headers.get("retry-after-ms") or "").strip()
    if NUMBER.fullmatch(millis):
        return float(millis) / 1000
    asked = (headers.get("Retry-After") or "").strip()
    if asked:
        if NUMBER.fullmatch(asked):
            return float(asked)
        when = _http_date(asked)
        if when is not None:
            return max(0.0, _until(when, headers))
    resets = list(_resets(headers))
    if resets:
        return max(resets)
    return _in_text(text)


def _resets(headers: Mapping[str, str]) -> Iterator[float]:
    """The waits for the windows that are used up."""
    for window in WINDOWS:
        for remaining, reset in (
            (f"x-ratelimit-remaining-{window}", f"x-ratelimit-reset-{window}"),
            (f"anthropic-ratelimit-{window}-remaining", f"anthropic-ratelimit-{window}-reset"),
        ):
            if _is_zero(headers.get(remaining)):
                wait_s = _reset_s(headers.get(reset), headers)
                if wait_s is not None:
                    yield wait_s
    if _is_zero(headers.get("x-ratelimit-remaining")):
        wait_s = _reset_s(headers.get("x-ratelimit-reset"), headers)
        if wait_s is not None:
            yield wait_s


def _is_zero(value: str | None) -> bool:
    return value is not None and value.strip() in ("0", "0.0")


def _reset_s(value: str | None, headers: Mapping[str, str]) -> float | None:
    """A duration, a number of seconds, or a point in time; None when it is none of them."""
    value = (value or "").strip()
    if not value:
        return None
    if NUMBER.fullmatch(value):
        number = float(value)
        if number >= YEAR_2001_MS:
            number = number / 1000 - _now(headers).timestamp()
        elif number >= YEAR_2001_S:
            number -= _now(headers).timestamp()
        return _sane(number)
    found = DURATION.fullmatch(value)
    if found and any(found.groups()):
        hours, minutes, seconds, millis = (float(part or 0) for part in found.groups())
        return _sane(hours * 3600 + minutes * 60 + seconds + millis / 1000)
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    return _sane(_until(when, headers))


def _http_date(text: str) -> datetime | None:
    try:
        return _zoned(parsedate_to_datetime(text))
    except (ValueError, OverflowError):
        return None


def _until(when: datetime, headers: Mapping[str, str]) -> float:
    return (_zoned(when) - _now(headers)).total_seconds()


def _now(headers: Mapping[str, str]) -> datetime:
    """By the provider's clock, which need not be ours."""
    return _http_date(headers.get("Date") or "") or datetime.now(UTC)


def _zoned(when: datetime) -> datetime:
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def _sane(wait_s: float) -> float | None:
    """Clocks differ; a reset further away than a day is no reset."""
    return max(0.0, wait_s) if wait_s <= A_DAY_S else None


def _in_text(text: str) -> float | None:
    found = IN_TEXT.search(text)
    if found is None:
        return None
    value = float(found[1] or found[3] or found[4])
    return value / 1000 if found[2] and found[2].lower() == "ms" else value
