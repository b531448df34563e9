"""Why a model call failed, and how the client is told.

    CallFailure (limits.py)
    └── UpstreamFailure    an attempt upstream failed; ``status`` None means no HTTP answer
    Refused                the client's own request is not acceptable; never reaches upstream

``kind`` is what ``ModelCall.error_kind`` records: a row of
:data:`osmosis.wire.failure_policy.CALL_POLICIES`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from osmosis.evaluation.gateway.json_codec import loads
from osmosis.evaluation.gateway.provider_errors import kind_of_error
from osmosis.evaluation.limits import CallFailure
from osmosis.wire.failure_policy import policy_of_call

RETRY_STATUSES = frozenset({429, 500, 502, 503, 504, 529})
CAPTURED_CHARS = 65_536
SHOWN_CHARS = 2000
"""A provider's words are cut to this after redaction: a cut through a secret would hide it."""


class Refused(Exception):
    """The client's request stops here, with this status and sentence."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


class UpstreamFailure(CallFailure):
    """An attempt upstream failed. ``body`` is the start of the raw answer, for the pre-flight."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        status: int | None = None,
        type: str | None = None,
        code: str | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        reached: bool = True,
        html: bool = False,
    ) -> None:
        super().__init__(
            message[:CAPTURED_CHARS],
            retryable=retryable,
            rate_limited=status == 429,
            retry_after_s=retry_after_s,
            reached=reached,
        )
        self.kind = kind
        self.status = status
        self.type = type
        self.code = code
        self.html = html

    @property
    def client_status(self) -> int:
        """A provider's 4xx is kept; everything else is 502."""
        return self.status if self.status is not None and 400 <= self.status < 500 else 502


def failure_of_answer(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamFailure:
    """What an HTTP error answer of a provider means."""
    message, type_, code = error_text(body)
    html = "html" in headers.get("Content-Type", "") or body.lstrip()[:1] == b"<"
    if html:
        message = f"HTTP {status}: the answer is an HTML page, not JSON"
    elif 300 <= status < 400:
        message = f"HTTP {status}: it redirects to {headers.get('Location', 'another address')}"
    told_not_to = headers.get("x-should-retry", "").lower() == "false"
    kind = kind_of_error(status, message, type_, code)
    return UpstreamFailure(
        kind,
        message or f"HTTP {status} without a message",
        status=status,
        type=type_,
        code=code,
        retryable=may_repeat(status, kind) and not told_not_to,
        retry_after_s=retry_after_s(headers),
        html=html,
    )


def may_repeat(status: int, kind: str) -> bool:
    """Whether another attempt may succeed where one was answered like this."""
    return status in RETRY_STATUSES and policy_of_call(kind).retry == "call"


def error_text(body: bytes) -> tuple[str, str | None, str | None]:
    """(message, type, code) of an error body, in any of the shapes that providers use."""
    try:
        parsed: Any = loads(body)
    except ValueError:
        return body[:CAPTURED_CHARS].decode("utf-8", "replace").strip(), None, None
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    if not isinstance(parsed, dict):
        return str(parsed)[:CAPTURED_CHARS], None, None
    error = parsed.get("error", parsed)
    if isinstance(error, str):
        return error, None, None
    if not isinstance(error, dict):
        error = parsed
    message = error.get("message") or error.get("detail") or parsed.get("detail") or ""
    type_, code = error.get("type"), error.get("code")
    return (
        message if isinstance(message, str) else str(message),
        str(type_) if type_ is not None else None,
        str(code) if code is not None else None,
    )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The wait a provider asks for: ``retry-after-ms``, or ``Retry-After`` seconds or date."""
    millis = headers.get("retry-after-ms")
    if millis and re.fullmatch(r"\d{1,9}(\.\d+)?", millis.strip()):
        return float(millis) / 1000
    text = (headers.get("Retry-After") or "").strip()
    if not text:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


class TextRedactor(Protocol):
    def text(self, text: str, /) -> str: ...


def shown(text: str, redactor: TextRedactor) -> str:
    """What may be recorded and answered of a provider's words."""
    return redactor.text(text)[:SHOWN_CHARS]
