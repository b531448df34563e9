"""The kinds of results: a list, lists beside each other, a detail, an operation.

Each knows its JSON envelope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1

Item = Mapping[str, Any]
Justify = Literal["left", "right"]


@dataclass(frozen=True)
class Column:
    """One column of a list for people: its header and how an item fills it.

    ``kind`` chooses a style: ``name`` stands out, ``status`` is coloured by its
    meaning; these and ``time`` are never cut. ``long`` text goes over several lines.
    """

    header: str
    cell: Callable[[Item], str]
    justify: Justify = "left"
    kind: Literal["", "name", "status", "time", "dim", "long"] = ""


@dataclass(frozen=True)
class Section:
    """Labelled values, or plain lines, under a heading."""

    title: str
    rows: Sequence[tuple[str, str]] = ()
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class NextStep:
    """What to do now: a sentence and, when there is one, the command."""

    text: str
    command: str | None = None

    def payload(self) -> dict[str, Any]:
        return {"description": self.text, **({"command": self.command} if self.command else {})}


@dataclass
class Listing:
    items: Sequence[Item]
    columns: Sequence[Column]
    total_count: int
    has_more: bool = False
    next_offset: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    empty: str = "Nothing here yet."
    rows: Sequence[Item] | None = None
    """What the columns read, when it is not the JSON items themselves."""
    hints: Sequence[NextStep] = ()
    exit_code: int = 0

    @property
    def shown(self) -> Sequence[Item]:
        return self.items if self.rows is None else self.rows

    def page(self) -> dict[str, Any]:
        """The items and the place in the whole list."""
        return {
            "items": list(self.items),
            "total_count": self.total_count,
            "has_more": self.has_more,
            "next_offset": self.next_offset,
        }

    def payload(self) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION, **self.page(), **self.extra}


@dataclass
class Listings:
    """Several lists under one command, each by the key that programs find it under."""

    lists: Mapping[str, Listing]
    extra: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int = 0

    def payload(self) -> dict[str, Any]:
        pages = {key: listing.page() for key, listing in self.lists.items()}
        return {"schema_version": SCHEMA_VERSION, **pages, **self.extra}


@dataclass
class Detail:
    data: Mapping[str, Any]
    rows: Sequence[tuple[str, str]]
    title: str = ""
    sections: Sequence[Section] = ()
    hints: Sequence[NextStep] = ()
    exit_code: int = 0

    def payload(self) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION, "data": dict(self.data)}


@dataclass
class Operation:
    operation: str
    message: str
    status: str = "success"
    resource: Mapping[str, Any] | None = None
    next_steps: Sequence[NextStep] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    detail: Detail | None = None
    """Shown below the message for people; programs find it in ``extra``."""
    exit_code: int = 0

    def payload(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "status": self.status,
            "operation": self.operation,
        }
        if self.resource is not None:
            body["resource"] = dict(self.resource)
        if self.message:
            body["message"] = self.message
        if self.next_steps:
            body["next_steps_structured"] = [step.payload() for step in self.next_steps]
        return {**body, **self.extra}


Result = Listing | Listings | Detail | Operation
