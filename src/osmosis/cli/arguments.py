"""The flags that may stand anywhere on the line, taken off before a command sees the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

from osmosis.wire.errors import ValidationFailed

_VALUED = {"--env-file": "env_file", "--platform": "platform", "--workspace": "workspace"}


class UsageMistake(ValidationFailed):
    """The command line itself is wrong: exit code 2."""


@dataclass
class Line:
    """A command line: the global flags and the words that are left."""

    words: list[str] = field(default_factory=list)
    json: bool = False
    plain: bool = False
    env_file: str | None = None
    platform: str | None = None
    workspace: str | None = None


def parse_line(arguments: list[str]) -> Line:
    """Split global flags from the command's own words; after ``--`` nothing is touched."""
    line = Line()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            line.words += [word, *rest]
            break
        flag, equals, value = word.partition("=")
        if word in ("--json", "--plain"):
            setattr(line, word[2:], True)
        elif flag in _VALUED:
            if not equals:
                if not rest:
                    raise UsageMistake(f"The flag {flag} needs a value.")
                value = rest.pop(0)
            if not value:
                raise UsageMistake(f"The flag {flag} needs a value.")
            setattr(line, _VALUED[flag], value)
        else:
            line.words.append(word)
    return line
