"""What a judge is asked through: a request body goes in, an :class:`Answer` comes out.

Two kinds of links exist: ``OwnLink``, a model that the caller names, and ``RunLink``, the judge
route of the run. Calls that a provider refused for now are repeated in exactly one place: for an
own model in its limiter, on the judge route in the run's gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Answer:
    """What a judge said. ``text`` is empty when it only refused."""

    text: str
    finish_reason: str | None = None
    refusal: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class CallFailed(Exception):
    """The judge gave no answer. ``status`` is None when nothing came back at all."""

    def __init__(self, kind: str, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status


class JudgeLink(Protocol):
    """Where one judge is asked."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str:
        """The judge's name, as reports show it."""
        ...

    @property
    def address(self) -> str | None:
        """Its base URL without credentials, where it is worth telling."""
        ...

    async def ask(self, body: Mapping[str, Any]) -> Answer: ...


def refusal_of(message: Mapping[str, Any]) -> str | None:
    """What a model says when it refuses, where the API has a place of its own for it."""
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) and refusal.strip() else None
