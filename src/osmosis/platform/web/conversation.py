"""A sample's steps as the page shows them.

A trajectory is what user code handed in: any key may be missing and any value of any type. It is
brought into one known shape here, so that the template needs no suspicion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from osmosis.platform.web.formats import content, pretty

ROLES = ("system", "user", "agent")


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: str


@dataclass(frozen=True)
class Turn:
    """One step: who, what was said, which tools were called, what came back."""

    role: str
    number: str
    model: str | None
    tokens: int | None
    reasoning: str
    text: str
    calls: list[ToolCall]
    results: list[str]


def turn_of(step: Any) -> Turn:
    """A step of an ATIF document, whatever its shape."""
    step = _mapping(step)
    role = step.get("source")
    tokens = _mapping(step.get("metrics")).get("completion_tokens")
    model = step.get("model_name")
    return Turn(
        role=role if isinstance(role, str) and role in ROLES else "user",
        number=str(step.get("step_id", "")),
        model=model if isinstance(model, str) else None,
        tokens=tokens if isinstance(tokens, int) else None,
        reasoning=content(step.get("reasoning_content")),
        text=content(step.get("message")),
        calls=[_call(_mapping(call)) for call in _list(step.get("tool_calls"))],
        results=[
            content(_mapping(result).get("content"))
            for result in _list(_mapping(step.get("observation")).get("results"))
        ],
    )


def label_of(document: Mapping[str, Any] | None) -> str | None:
    """The row's ground truth, as the trajectory keeps it."""
    extra = _mapping(_mapping(_mapping(document).get("extra")).get("osmosis"))
    label = extra.get("label")
    return None if label is None else pretty(label)


def _call(call: Mapping[str, Any]) -> ToolCall:
    return ToolCall(str(call.get("function_name", "")), pretty(call.get("arguments", {})))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
