"""Completion scripts, written from the commands as they are.

They hold the words themselves, so that a TAB starts no Python.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass

import click

from osmosis.cli.catalogue import ENTRIES

GLOBAL_FLAGS = ("--json", "--plain", "--platform", "--workspace", "--env-file", "--help")


@dataclass(frozen=True)
class Node:
    """A command with what may follow it: commands below it with their help, and flags."""

    path: tuple[str, ...]
    commands: dict[str, str]
    flags: tuple[tuple[str, str], ...]


def nodes() -> list[Node]:
    """Every command that is not hidden, groups before what is in them."""
    root = Node((), {name: entry.summary for name, entry in ENTRIES.items()}, ())
    found = [root]
    for entry in ENTRIES.values():
        app = importlib.import_module(f"osmosis.cli.commands.{entry.module}").app
        found += _below((entry.name,), app)
    return found


def script(shell: str) -> str:
    """The completion script for ``bash``, ``zsh`` or ``fish``."""
    if shell == "fish":
        return _fish(nodes())
    return _ZSH_START + _bash(nodes()) if shell == "zsh" else _bash(nodes())


def _below(path: tuple[str, ...], command: click.Command) -> Iterator[Node]:
    children = dict(command.commands) if isinstance(command, click.Group) else {}
    shown = {name: child for name, child in children.items() if not child.hidden}
    flags = tuple(
        (flag, option.help or "")
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
        for flag in option.opts
        if flag.startswith("--")
    )
    yield Node(path, {name: c.get_short_help_str(80) for name, c in shown.items()}, flags)
    for name, child in shown.items():
        yield from _below((*path, name), child)


_ZSH_START = """\
autoload -U +X compinit && compinit -u
autoload -U +X bashcompinit && bashcompinit
"""

_BASH_END = """\
  if [[ "$cur" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  fi
}
complete -o default -F _osmosis osmosis
"""


def _bash(found: list[Node]) -> str:
    """Walks the words up to the cursor along the known commands, then offers what may follow."""
    paths = "|".join(f'" {" ".join(node.path)}"' for node in found if node.path)
    lines = [
        "_osmosis() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" place="" words="" flags="" i',
        "  for ((i = 1; i < COMP_CWORD; i++)); do",
        '    case "$place ${COMP_WORDS[i]}" in',
        f'      {paths}) place="$place ${{COMP_WORDS[i]}}" ;;',
        "    esac",
        "  done",
        '  case "$place" in',
    ]
    for node in found:
        place = "".join(f" {word}" for word in node.path)
        flags = " ".join([*(flag for flag, _ in node.flags), *GLOBAL_FLAGS])
        words = " ".join(node.commands)
        lines.append(f'    "{place}") words="{words}" flags="{flags}" ;;')
    return "\n".join([*lines, "  esac", _BASH_END])


def _fish(found: list[Node]) -> str:
    lines = [f"complete -c osmosis -l {flag.removeprefix('--')}" for flag in GLOBAL_FLAGS]
    for node in found:
        at = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in node.path)
        if node.commands:
            none_yet = f"not __fish_seen_subcommand_from {' '.join(node.commands)}"
            where = f"{at}; and {none_yet}" if at else "__fish_use_subcommand"
            lines += [
                f"complete -c osmosis -f -n {_quoted(where)} -a {name} -d {_quoted(text)}"
                for name, text in node.commands.items()
            ]
        lines += [
            f"complete -c osmosis -n {_quoted(at)} -l {flag.removeprefix('--')} -d {_quoted(text)}"
            for flag, text in node.flags
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
