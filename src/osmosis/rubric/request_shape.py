"""What a judge model takes in a request, found out by asking, never by its name.

A request begins with everything that helps: a strict JSON schema, temperature 0, the token limit
under its usual name. A refusal (HTTP 400 and the like) that names one of them takes it away or puts
the next form in its place; one that names nothing takes them away in order. What a first answer
came with is remembered for the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

MAX_CHANGES = 7
"""Refusals of the form that one request may meet: as many as there are forms to give up."""

OF_THE_FORM = frozenset({400, 415, 422, 501})
MAYBE_OF_THE_FORM = frozenset({404, 500})
"""Only when the message names a parameter: they mean other things too."""

_FORMATS = ("json_schema", "json_object", "text")
_NAMES_FORMAT = re.compile(
    r"response_?format|json_?schema|json_?object|structured output|json mode|output_config|"
    r"grammar|guided|responseSchema|response_schema",
    re.IGNORECASE,
)
_NAMES_TEMPERATURE = re.compile(r"temperature", re.IGNORECASE)
_NAMES_LIMIT = re.compile(r"max_?(?:completion_|output_)?tokens", re.IGNORECASE)
_NAMES_BOUND = re.compile(r"max_?length", re.IGNORECASE)
_NOT_THE_FORM = re.compile(
    r"context (?:length|window|size)|too (?:long|large|many tokens)|exceeds? the|"
    r"model .{0,80}(?:not exist|not found)|api key|content (?:policy|filter)|quota|credit",
    re.IGNORECASE,
)


def names_a_form(message: str) -> bool:
    """Whether an error message speaks of structured output."""
    return _NAMES_FORMAT.search(message) is not None


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"explanation": {"type": "string"}, "score": {"type": "number"}},
    "required": ["explanation", "score"],
    "additionalProperties": False,
}
"""The reason comes first: a model that has written it gives a better score."""
BRIEF_CHARS = 300
BRIEF_SCHEMA: Mapping[str, Any] = {
    **SCHEMA,
    "properties": {
        "explanation": {"type": "string", "maxLength": BRIEF_CHARS},
        "score": {"type": "number"},
    },
}
"""Not sent at first: some providers refuse ``maxLength`` in a strict schema."""


@dataclass(frozen=True)
class RequestShape:
    """Which optional parameters are sent, and how."""

    format: str = "json_schema"
    temperature: float | None = 0.0
    max_tokens: int | None = None
    limit_name: str = "max_tokens"
    brief: bool = False
    """Whether the schema bounds the explanation: for a judge that did not come to an end."""

    def parameters(self) -> dict[str, Any]:
        """The optional part of a request body."""
        found: dict[str, Any] = {}
        if self.format == "json_schema":
            schema = BRIEF_SCHEMA if self.brief else SCHEMA
            found["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "rubric_response", "strict": True, "schema": schema},
            }
        elif self.format == "json_object":
            found["response_format"] = {"type": "json_object"}
        if self.temperature is not None:
            found["temperature"] = self.temperature
        if self.max_tokens is not None:
            found[self.limit_name] = self.max_tokens
        return found

    def after_refusal(self, status: int | None, message: str) -> RequestShape | None:
        """The shape to try after an error answer; None when its form is not what was refused."""
        if status not in OF_THE_FORM and status not in MAYBE_OF_THE_FORM:
            return None
        if _NAMES_TEMPERATURE.search(message) and self.temperature is not None:
            return replace(self, temperature=None)
        if _NAMES_LIMIT.search(message) and self.max_tokens is not None:
            return self._other_limit()
        if (
            self.brief
            and self.format == "json_schema"
            and (_NAMES_BOUND.search(message) or not _NOT_THE_FORM.search(message))
        ):
            return replace(self, brief=False)
        if _NAMES_FORMAT.search(message) and self.format != "text":
            return self._plainer()
        if status in MAYBE_OF_THE_FORM or _NOT_THE_FORM.search(message):
            return None
        if self.format != "text":
            return self._plainer()
        if self.temperature is not None:
            return replace(self, temperature=None)
        return self._other_limit() if self.max_tokens is not None else None

    def _plainer(self) -> RequestShape:
        return replace(self, format=_FORMATS[_FORMATS.index(self.format) + 1])

    def _other_limit(self) -> RequestShape:
        if self.limit_name == "max_tokens":
            return replace(self, limit_name="max_completion_tokens")
        return replace(self, max_tokens=None, limit_name="max_tokens")
