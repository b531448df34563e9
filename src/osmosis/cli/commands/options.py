"""Flags that several commands share, and how a group of commands is made.

Click rather than Typer: Typer imports pydantic and builds a validator for every flag of a group
before the first command runs, which costs a third of the time that `osmosis eval list` may take.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import click

from osmosis.cli.arguments import UsageMistake

PAGE_LIMIT = 50
LOG_LIMIT = 200

EVERYWHERE = "Everywhere: --json, --plain, --platform URL, --workspace NAME, --env-file PATH."
CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}

FILE = click.Path(path_type=Path)


def group(name: str, summary: str) -> click.Group:
    """A group of commands in our style."""
    return click.Group(name, help=summary, epilog=EVERYWHERE, context_settings=CONTEXT)


latest_argument = click.argument("name", required=False, metavar="[NAME]")
"""A run by name or id; without it, the latest one."""
yes_flag = click.option("--yes", "-y", is_flag=True, help="Agree beforehand; ask nothing.")
cursor_flag = click.option(
    "--cursor", metavar="TEXT", help="Continue to older entries from an earlier page."
)
log_limit_flag = click.option(
    "--limit",
    type=click.IntRange(1, LOG_LIMIT),
    default=50,
    metavar="N",
    help="How many entries to show.",
)


def paging_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--limit`` and ``--all``, passed on as ``limit`` and ``everything``."""
    command = click.option(
        "--all", "everything", is_flag=True, help="Show all of them; excludes --limit."
    )(command)
    return click.option(
        "--limit",
        type=click.IntRange(1, PAGE_LIMIT),
        metavar="N",
        help=f"How many to show (else {PAGE_LIMIT}, which is the most).",
    )(command)


class Paging(TypedDict):
    """The arguments of a list call."""

    limit: int
    everything: bool


def paging(limit: int | None, everything: bool) -> Paging:
    """The arguments of a list call from ``--limit`` and ``--all``, which exclude each other."""
    if limit is not None and everything:
        raise UsageMistake("--limit and --all exclude each other.")
    return {"limit": limit or PAGE_LIMIT, "everything": everything}
