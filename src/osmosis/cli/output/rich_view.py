"""Results for people at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from osmosis.cli.output.format import printable
from osmosis.cli.output.mode import width
from osmosis.cli.output.results import Detail, Listing, Listings, NextStep, Operation, Result
from osmosis.cli.output.styles import status_style
from osmosis.cli.output.table import fitted_table, note_on


def console() -> Console:
    """A console on stdout, made anew so that it follows a redirected stream."""
    return Console(
        file=sys.stdout, highlight=False, soft_wrap=False, width=width(sys.stdout.isatty())
    )


def show(result: Result) -> None:
    """Draw a result. Into a pipe it goes without the spaces that pad a table's last column."""
    screen = console()
    if screen.is_terminal:
        _draw(screen, result)
        return
    with screen.capture() as captured:
        _draw(screen, result)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _draw(screen: Console, result: Result) -> None:
    if isinstance(result, Listing):
        _listing(screen, result)
    elif isinstance(result, Listings):
        for number, listing in enumerate(result.lists.values()):
            if number:
                screen.print()
            screen.print(Text(listing.title, style="bold"))
            _listing(screen, listing)
    elif isinstance(result, Detail):
        _detail(screen, result)
        _steps(screen, result.hints)
    else:
        _operation(screen, result)


def draw_detail(detail: Detail) -> None:
    """A detail on stderr."""
    columns = width(sys.stderr.isatty())
    _detail(Console(stderr=True, highlight=False, width=columns), detail)


def _listing(screen: Console, result: Listing) -> None:
    if not result.shown:
        screen.print(Text(result.empty))
        _steps(screen, result.hints)
        return
    table, left_out = fitted_table(result, screen.width, shorten=screen.is_terminal)
    screen.print(table)
    if left_out:
        screen.print(Text(note_on(left_out), style="dim"))
    if result.has_more and result.total_count > len(result.shown):
        shown = f"{len(result.shown)} of {result.total_count} shown; --all shows the rest."
        screen.print(Text(shown, style="dim"))
    _steps(screen, result.hints)


def _detail(screen: Console, result: Detail) -> None:
    if result.title:
        screen.print(Text(result.title, style="bold"))
    screen.print(_pairs(result.rows))
    for section in result.sections:
        screen.print()
        screen.print(Text(section.title, style="bold"))
        if section.rows:
            screen.print(_pairs(section.rows))
        for line in section.lines:
            screen.print(Padding(Text(printable(line)), (0, 0, 0, 2)))


def _operation(screen: Console, result: Operation) -> None:
    if result.message:
        mark = {"success": ("✓ ", "green"), "partial": ("! ", "yellow")}.get(result.status)
        line = Text(mark[0], style=mark[1]) if mark else Text()
        screen.print(line.append(printable(result.message), style="default"))
    if result.detail:
        screen.print()
        _detail(screen, result.detail)
        _steps(screen, result.detail.hints)
    _steps(screen, result.next_steps)


def _pairs(rows: Sequence[tuple[str, str]]) -> Padding:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        style = status_style(value) if label == "Status" else ""
        table.add_row(Text(printable(label)), Text(printable(value), style=style))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _steps(screen: Console, steps: Sequence[NextStep]) -> None:
    if not steps:
        return
    screen.print()
    for step in steps:
        line = Text(step.text, style="dim")
        if step.command:
            line.append(" ").append(step.command, style="cyan not dim")
        screen.print(line, soft_wrap=True)
