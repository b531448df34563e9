"""Flags that several commands share, and how a group of commands is made.

Click rather than Typer: Typer imports pydantic and builds a validator for every flag of a group
before the first command runs, which costs a third of the time that `osmosis eval list` may take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import click

from osmosis.cli.arguments import UsageMistake
from osmosis.workspace.advanced_keys import ADVANCED_KEYS

PAGE_LIMIT = 50
LOG_LIMIT = 200

EVERYWHERE = "Everywhere: --json, --plain, --platform URL, --workspace NAME, --env-file PATH."
CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}

Command = TypeVar("Command", bound=Callable[..., Any])

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


def advanced_flags(keys: Iterable[str]) -> Callable[[Command], Command]:
    """A flag for each of these keys of [advanced]; :func:`advanced_values` reads them."""

    def decorate(command: Command) -> Command:
        for name in reversed(list(keys)):
            key = ADVANCED_KEYS[name]
            meaning = key.meaning.replace("`", "")
            if key.kind is bool:
                both = f"{key.flag}/--no-{key.flag.removeprefix('--')}"
                flag = click.option(both, default=None, help=meaning)
            else:
                metavar = "TEXT" if key.kind is str else "N"
                flag = click.option(key.flag, type=key.kind, metavar=metavar, help=meaning)
            command = flag(command)
        return command

    return decorate


def advanced_values(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of [advanced] that were given as flags."""
    given = {name: flags.get(_parameter(key.flag)) for name, key in ADVANCED_KEYS.items()}
    return {name: value for name, value in given.items() if value is not None}


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


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
