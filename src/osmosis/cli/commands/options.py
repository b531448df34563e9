"""Flags that several commands share, and how a group of commands is made."""

from __future__ import annotations

from typing import Annotated, TypedDict

import typer

from osmosis.cli.arguments import UsageMistake

PAGE_LIMIT = 50
LOG_LIMIT = 200

EVERYWHERE = "Everywhere: --json, --plain, --platform URL, --workspace NAME, --env-file PATH."

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Agree beforehand; ask nothing.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, max=PAGE_LIMIT, help="How many to show (50).")
]
All = Annotated[bool, typer.Option("--all", help="Show all of them.")]
LogLimit = Annotated[
    int, typer.Option("--limit", min=1, max=LOG_LIMIT, help="How many entries to show.")
]
Cursor = Annotated[
    str | None, typer.Option("--cursor", help="Continue to older entries from an earlier page.")
]


def group(name: str, summary: str) -> typer.Typer:
    """A Typer app for one group of commands, in our style."""
    return typer.Typer(
        name=name,
        help=summary,
        epilog=EVERYWHERE,
        add_completion=False,
        no_args_is_help=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


class Paging(TypedDict):
    """The arguments of a list call."""

    limit: int
    everything: bool


def paging(limit: int | None, everything: bool) -> Paging:
    """The arguments of a list call from ``--limit`` and ``--all``, which exclude each other."""
    if limit is not None and everything:
        raise UsageMistake("--limit and --all exclude each other.")
    return {"limit": limit or PAGE_LIMIT, "everything": everything}
