"""The verdict of a gate on a run: one object behind the text, the JSON and the exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CheckOutcome = Literal["passed", "failed", "undecided"]
GateOutcome = Literal["passed", "failed", "incomplete", "error"]

EXIT_CODES: Mapping[GateOutcome, int] = {"passed": 0, "error": 1, "failed": 3, "incomplete": 4}
"""What a command that waited for a run exits with."""


def outcome_of_status(status: str) -> GateOutcome:
    """What the end of a run says by itself; a stopped or unended run is never a full one."""
    if status == "finished":
        return "passed"
    return "error" if status == "failed" else "incomplete"


@dataclass(frozen=True)
class Check:
    """One threshold against what was measured.

    ``undecided``: failures that say nothing about the agent leave it open which side it is on.
    ``rows`` are the first of the rows that are the reason, by ``row_index``.
    """

    name: str
    outcome: CheckOutcome
    required: float
    measured: float | None
    message: str
    rows: tuple[int, ...] = ()

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "name": self.name,
            "outcome": self.outcome,
            "required": self.required,
            "measured": self.measured,
            "message": self.message,
        }
        return {**body, "rows": list(self.rows)} if self.rows else body


@dataclass(frozen=True)
class Verdict:
    """Whether a run may pass, and why. ``outcome`` decides the exit code alone."""

    outcome: GateOutcome
    message: str
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]

    def body(self) -> dict[str, Any]:
        return {
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "message": self.message,
            "checks": [check.body() for check in self.checks],
            "notes": list(self.notes),
        }


def verdict_of(body: Mapping[str, Any]) -> Verdict:
    """The verdict that :meth:`Verdict.body` wrote."""
    return Verdict(
        outcome=body["outcome"],
        message=str(body["message"]),
        checks=tuple(map(_check_of, body["checks"])),
        notes=tuple(body.get("notes", ())),
    )


def _check_of(body: Mapping[str, Any]) -> Check:
    return Check(
        name=body["name"],
        outcome=body["outcome"],
        required=body["required"],
        measured=body["measured"],
        message=body["message"],
        rows=tuple(body.get("rows", ())),
    )
