"""Asking the user, on stderr; refused with a clear error where nobody can answer."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence

from osmosis.cli.output.mode import output
from osmosis.wire.errors import InteractiveRequired


class Declined(Exception):
    """The user said no. Not an error: the command ends with exit code 0."""


def confirm(
    question: str,
    *,
    yes: bool,
    default: bool = False,
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    summary: object = None,
) -> None:
    """Go on only when the user agrees; ``yes`` is the flag ``--yes``."""
    if yes:
        return
    if not output.interactive:
        details: dict[str, object] = {"prompt": question}
        if summary is not None:
            details["summary"] = summary
        if notes:
            details["notes"] = list(notes)
        if warnings:
            details["warnings"] = list(warnings)
        raise InteractiveRequired(
            f"This needs an answer, and nobody is there to give it: {question}",
            hint="Add --yes to agree beforehand.",
            details=details,
        )
    answer = _ask(f"{question} [{'Y/n' if default else 'y/N'}] ").strip().lower()
    if not (default if answer == "" else answer in ("y", "yes")):
        raise Declined


def choose(question: str, names: Sequence[str], *, hint: str) -> str:
    """One of ``names``, by its number or as it is; asked again until it is one of them."""
    if not output.interactive:
        raise InteractiveRequired(
            f"This needs an answer, and nobody is there to give it: {question}",
            hint=hint,
            details={"prompt": question, "choices": list(names)},
        )
    for number, name in enumerate(names, start=1):
        print(f"  {number}  {name}", file=sys.stderr)
    while True:
        answer = _ask(f"{question} [1-{len(names)}] ").strip()
        if answer in names:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]


def ask_hidden(prompt: str, *, hint: str, details: dict[str, object] | None = None) -> str:
    """A value that is not shown while it is typed."""
    if not output.interactive:
        raise InteractiveRequired(
            f"{prompt} is needed, and nobody is there to type it.", hint=hint, details=details
        )
    return getpass.getpass(f"{prompt}: ", stream=sys.stderr)


def _ask(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if line == "":
        raise KeyboardInterrupt
    return line
