"""Why a model call failed, and how the client is told.

    CallFailure (limits.py)
    └── UpstreamFailure    an attempt upstream failed; ``status`` None means no HTTP answer
    Refused                the client's own request is not acceptable; never reaches upstream

``kind`` is what ``ModelCall.error_kind`` records: a row of
:data:`osmosis.wire.failure_policy.CALL_POLICIES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from osmosis.evaluation.gateway.json_codec import loads
from osmosis.evaluation.gateway.provider_errors import kind_of_error
from osmosis.evaluation.gateway.retry_after import retry_after_s
from osmosis.evaluation.limits import CallFailure
from osmosis.wire.failure_policy import policy_of_call

RETRY_STATUSES = frozenset({408, 429, *range(500, 600)}) - {501, 505, 511}
NO_ROOM_KINDS = frozenset({"rate_limit", "overloaded"})
"""The provider takes no further call just now."""
NEVER_REPEATED = frozenset({"auth", "quota"})
"""Whatever the answer says: the next one would be the same."""
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
            kind=kind,
            status=status,
            limited=kind in NO_ROOM_KINDS,
            retry_after_s=retry_after_s,
            reached=reached,
        )
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
    told = headers.get("x-should-retry", "").lower()
    kind = kind_of_error(status, message, type_, code)
    return UpstreamFailure(
        kind,
        message or f"HTTP {status} without a message",
        status=status,
        type=type_,
        code=code,
        retryable=told != "false"
        and (may_repeat(status, kind) or (told == "true" and kind not in NEVER_REPEATED)),
        retry_after_s=retry_after_s(headers, message),
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


class TextRedactor(Protocol):
    def text(self, text: str, /) -> str: ...


def shown(text: str, redactor: TextRedactor) -> str:
    """What may be recorded and answered of a provider's words."""
    return redactor.text(text)[:SHOWN_CHARS]
