"""Completion scripts, written from the commands as they are.

They hold the words themselves, so that a TAB starts no Python.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass

import click

from osmosis.cli.catalogue import ENTRIES

GLOBAL_FLAGS = {
    "--json": False,
    "--plain": False,
    "--platform": True,
    "--workspace": True,
    "--env-file": True,
    "--help": False,
}
"""The flags of every command, and whether a value follows."""


@dataclass(frozen=True)
class Flag:
    """A flag with its help. ``values`` are the only ones it takes, when it is so."""

    name: str
    help: str
    takes_value: bool
    values: tuple[str, ...]


@dataclass(frozen=True)
class Node:
    """A command with what may follow it: commands below it with their help, the words that its
    argument may be, and flags."""

    path: tuple[str, ...]
    commands: dict[str, str]
    words: tuple[str, ...]
    flags: tuple[Flag, ...]

    @property
    def place(self) -> str:
        return " ".join(self.path)


def nodes() -> list[Node]:
    """Every command that is not hidden, groups before what is in them."""
    root = Node((), {name: entry.summary for name, entry in ENTRIES.items()}, (), ())
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
        Flag(name, option.help or "", not option.is_flag, _choices(option))
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
        for name in option.opts
        if name.startswith("--")
    )
    words = tuple(
        word
        for argument in command.params
        if isinstance(argument, click.Argument)
        for word in _choices(argument)
    )
    helps = {name: child.get_short_help_str(80) for name, child in shown.items()}
    yield Node(path, helps, words, flags)
    for name, child in shown.items():
        yield from _below((*path, name), child)


def _choices(parameter: click.Parameter) -> tuple[str, ...]:
    kind = parameter.type
    return tuple(map(str, kind.choices)) if isinstance(kind, click.Choice) else ()


_ZSH_START = """\
autoload -U +X compinit && compinit -u
autoload -U +X bashcompinit && bashcompinit
"""

_BASH_END = """\
  if [[ -n "$values" ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$cur"))
  elif [[ "$cur" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  fi
}
complete -o default -F _osmosis osmosis
"""


def _bash(found: list[Node]) -> str:
    """Walks the words up to the cursor along the known commands, then offers what may follow."""
    paths = "|".join(f'" {node.place}"' for node in found if node.path)
    lines = [
        "_osmosis() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" place="" words="" flags="" values="" i',
        "  for ((i = 1; i < COMP_CWORD; i++)); do",
        '    case "$place ${COMP_WORDS[i]}" in',
        f'      {paths}) place="$place ${{COMP_WORDS[i]}}" ;;',
        "    esac",
        "  done",
        '  case "$place" in',
    ]
    for node in found:
        place = f" {node.place}" if node.path else ""
        flags = " ".join([*(flag.name for flag in node.flags), *GLOBAL_FLAGS])
        words = " ".join([*node.commands, *node.words])
        lines.append(f'    "{place}") words="{words}" flags="{flags}" ;;')
    lines += ["  esac", '  case "$place ${COMP_WORDS[COMP_CWORD-1]}" in']
    lines += [
        f'    " {node.place} {flag.name}") values="{" ".join(flag.values)}" ;;'
        for node in found
        for flag in node.flags
        if flag.values
    ]
    return "\n".join([*lines, "  esac", _BASH_END])


def _fish(found: list[Node]) -> str:
    """The same walk as a function of fish, on which each offer depends."""
    paths = " ".join(_quoted(f" {node.place}") for node in found if node.path)
    lines = [
        "function __osmosis_at",
        "  set -l place ''",
        "  for word in (commandline -opc)[2..-1]",
        f'    contains -- "$place $word" {paths}; and set place "$place $word"',
        "  end",
        '  test "$place" = "$argv[1]"',
        "end",
    ]
    lines += [
        f"complete -c osmosis -l {name.removeprefix('--')}{' -r' if takes_value else ''}"
        for name, takes_value in GLOBAL_FLAGS.items()
    ]
    for node in found:
        place = f" {node.place}" if node.path else ""
        at = f"complete -c osmosis -n {_quoted(f'__osmosis_at {_quoted(place)}')}"
        lines += [f"{at} -f -a {name} -d {_quoted(text)}" for name, text in node.commands.items()]
        lines += [f"{at} -f -a {word}" for word in node.words]
        for flag in node.flags:
            value = " -r" if flag.takes_value else ""
            if flag.values:
                value = f" -x -a {_quoted(' '.join(flag.values))}"
            lines.append(f"{at} -l {flag.name.removeprefix('--')}{value} -d {_quoted(flag.help)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
