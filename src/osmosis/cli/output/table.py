"""A list as a table that fits the terminal: text is shortened first, then columns go."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from osmosis.cli.output.format import printable
from osmosis.cli.output.results import Column, Listing
from osmosis.cli.output.styles import status_style

GAP = 2
SHORTEST_TEXT = 12
SHORTEST_LONG = 24
WHOLE_KINDS = ("name", "status", "time")
"""What is worth nothing when it is cut; numbers, which stand at the right, neither."""


def fitted_table(listing: Listing, width: int, *, shorten: bool = True) -> tuple[Table, list[str]]:
    """The table, and the headers of the columns that the width has no room for.

    Columns go from the right, never a name and never one that holds long text, which wraps.
    Without ``shorten``, for a pipe, nothing is cut and nothing left out.
    """
    columns = list(listing.columns)
    cells = {id(c): [printable(c.cell(item)) for item in listing.shown] for c in columns}
    natural = {
        id(c): max(cell_len(text) for text in (c.header, *cells[id(c)])) for c in listing.columns
    }
    left_out: list[str] = []
    while shorten and sum(_least(c, natural[id(c)]) + GAP for c in columns) - GAP > width:
        goes = next((c for c in reversed(columns) if c.kind not in ("name", "long")), None)
        if goes is None:
            break
        columns.remove(goes)
        left_out.insert(0, goes.header)
    widths = _shrunk(columns, natural, width)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for column in columns:
        table.add_column(
            column.header,
            justify=column.justify,
            overflow="ellipsis" if shorten and column.kind != "long" else "fold",
            no_wrap=column.kind in WHOLE_KINDS or (shorten and column.kind != "long"),
            width=widths[id(column)] if shorten else None,
        )
    for row in zip(*(cells[id(column)] for column in columns), strict=True):
        table.add_row(*(_styled(c, text) for c, text in zip(columns, row, strict=True)))
    return table, left_out


def _shrunk(columns: Sequence[Column], natural: dict[int, int], width: int) -> dict[int, int]:
    """How wide each column is, by its id. Long text gives way first: it wraps and loses nothing."""
    widths = dict(natural)
    room = width - sum(natural[id(c)] + GAP for c in columns) + GAP
    for column in sorted(columns, key=lambda c: c.kind != "long"):
        if room >= 0:
            break
        wide = natural[id(column)]
        widths[id(column)] = max(wide + room, _least(column, wide))
        room += wide - widths[id(column)]
    return widths


def _least(column: Column, natural: int) -> int:
    if column.kind in WHOLE_KINDS or column.justify == "right":
        return natural
    return min(natural, SHORTEST_LONG if column.kind == "long" else SHORTEST_TEXT)


def _styled(column: Column, text: str) -> Text:
    if column.kind == "status":
        return Text(text, style=status_style(text))
    style: dict[str, str] = {"name": "bold", "dim": "dim"}
    return Text(text, style=style.get(column.kind, ""))


def note_on(left_out: Sequence[str]) -> str:
    """What to say of the columns that are not shown."""
    return f"Too narrow for: {', '.join(left_out)}. --plain shows every column."
