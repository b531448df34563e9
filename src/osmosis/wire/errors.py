"""The errors that Osmosis shows to people and programs.

    OsmosisError                      code INTERNAL, HTTP 500
    ├── ValidationFailed              VALIDATION 400      what was sent is wrong; lists every issue
    ├── AuthRequired                  AUTH_REQUIRED 401   no usable token
    ├── Forbidden                     PLATFORM_ERROR 403  known, but not allowed
    ├── NotFound                      NOT_FOUND 404       no such thing; suggests the near one
    ├── Conflict                      CONFLICT 409        the thing's state forbids it
    ├── RateLimited                   RATE_LIMITED 429    try again later
    ├── InteractiveRequired           INTERACTIVE_REQUIRED  a question, but nobody to answer
    ├── WorkspaceRequired             WORKSPACE_REQUIRED  the command needs a workspace directory
    ├── Unreachable                   PLATFORM_ERROR      no server answers at the address
    └── RunFailed                     RUN_FAILED          one evaluation ended early as a whole

Every error carries: a stable ``code``, one sentence of what was wrong, ``hint`` (the next
step), and ``details`` for programs.  ``platform_code`` is the machine code inside an HTTP body.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Issue:
    """One mistake in a config or body: where it is, what is wrong, the likely fix.

    A plain dataclass: the command line starts in the time that importing pydantic takes.
    """

    key: str
    message: str
    key_correction: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        """``evaluation.batchsize (line 9): unknown key; did you mean evaluation.batch_size?``"""
        where = f"{self.key} (line {self.line})" if self.line else self.key
        text = f"{where}: {self.message}" if where else self.message
        if self.key_correction and self.key_correction not in self.message:
            text += f" (did you mean {self.key_correction}?)"
        return text

    def body(self) -> dict[str, Any]:
        """The issue on the wire; absent values left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class OsmosisError(Exception):
    """Base of every designed error. ``str(error)`` is for people: the sentence, then the issues."""

    code = "INTERNAL"
    http_status = 500

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        platform_code: str | None = None,
        field: str | None = None,
        issues: Iterable[Issue] = (),
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.platform_code = platform_code
        self.field = field
        self.issues = list(issues)
        self.details = dict(details or {})

    def __str__(self) -> str:
        return "\n".join([self.message, *map(str, self.issues)])

    def body(self) -> dict[str, Any]:
        """The HTTP error body (platform-api.md §3.0): both spellings of the text, one shape."""
        text = f"{self.message} {self.hint}" if self.hint else self.message
        body: dict[str, Any] = {**self.details, "error": text, "message": text}
        body["code"] = self.platform_code or self.code
        if self.hint:
            body["hint"] = self.hint
        if self.field:
            body["field"] = self.field
        if self.issues:
            body["issues"] = [issue.body() for issue in self.issues]
        return body


class ValidationFailed(OsmosisError):
    code, http_status = "VALIDATION", 400


class AuthRequired(OsmosisError):
    code, http_status = "AUTH_REQUIRED", 401


class Forbidden(OsmosisError):
    code, http_status = "PLATFORM_ERROR", 403


class NotFound(OsmosisError):
    code, http_status = "NOT_FOUND", 404


class Conflict(OsmosisError):
    code, http_status = "CONFLICT", 409


class RateLimited(OsmosisError):
    code, http_status = "RATE_LIMITED", 429


class InteractiveRequired(OsmosisError):
    code, http_status = "INTERACTIVE_REQUIRED", 400


class WorkspaceRequired(OsmosisError):
    code, http_status = "WORKSPACE_REQUIRED", 400


class Unreachable(OsmosisError):
    code, http_status = "PLATFORM_ERROR", 503


class RunFailed(OsmosisError):
    """An evaluation cannot go on as a whole; ``kind`` is one of :data:`RUN_ERROR_KINDS`."""

    code, http_status = "RUN_FAILED", 500

    def __init__(self, kind: str, message: str, *, hint: str | None = None, **more: Any) -> None:
        super().__init__(message, hint=hint, **more)
        self.kind = kind


RUN_ERROR_KINDS = (
    "code_unavailable",
    "dependencies_failed",
    "interpreter_missing",
    "entrypoint_missing",
    "rollout_start_failed",
    "rollout_unhealthy",
    "rollout_protocol_unsupported",
    "rollout_crashed",
    "regrade_unsupported",
    "secret_missing",
    "model_name_invalid",
    "model_key_missing",
    "model_key_rejected",
    "model_not_found",
    "model_quota_exhausted",
    "model_rate_limited",
    "model_unreachable",
    "model_wrong_endpoint",
    "model_refused",
    "replay_unavailable",
    "budget_not_measurable",
    "dataset_unreadable",
    "worker_lost",
    "internal",
)


def near(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, or None when nothing is close."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the nearest known name, or an empty string."""
    match = near(name, known)
    return f" Did you mean '{match}'?" if match else ""
