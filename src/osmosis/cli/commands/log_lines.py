"""Log entries as a list: the same columns for runs and datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from osmosis.cli.output import Column, Listing, NextStep
from osmosis.cli.output.format import moment, text

if TYPE_CHECKING:
    from osmosis.client.api import LogPage

COLUMNS = (
    Column("Time", lambda e: moment(e.get("timestamp")), kind="time"),
    Column("Level", lambda e: text(e.get("level"))),
    Column("Step", lambda e: text(e.get("step"))),
    Column("Message", lambda e: text(e.get("message")), kind="long"),
)


def log_listing(page: LogPage, command: str, extra: dict[str, object]) -> Listing:
    """One page of a log; the hint leads to older entries."""
    hints: list[NextStep] = []
    if page.next_cursor:
        hints.append(NextStep("Older entries:", f"{command} --cursor '{page.next_cursor}'"))
    return Listing(
        items=page.entries,
        columns=COLUMNS,
        total_count=len(page.entries),
        has_more=page.next_cursor is not None,
        extra={"next_cursor": page.next_cursor, **extra},
        empty="No log entries.",
        hints=hints,
    )
