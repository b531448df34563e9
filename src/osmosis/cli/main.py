"""The entry point: global flags, then the command, then its result; every ending in one place.

Exit codes: 0 success, also of a declined question and of help; 1 an error; 2 a mistake on the
command line; 130 Ctrl-C.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from osmosis import __version__
from osmosis.cli.arguments import UsageMistake, parse_line
from osmosis.cli.catalogue import ENTRIES, Entry, root_help
from osmosis.cli.output.mode import output
from osmosis.wire.errors import OsmosisError, ValidationFailed, did_you_mean

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Run one command line and end the process."""
    code = run(sys.argv[1:] if arguments is None else arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (``head``) has gone. Nothing is left to say, nor at the interpreter's exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line and give its exit code."""
    output.mode = "json" if "--json" in arguments else "plain" if "--plain" in arguments else "rich"
    output.command = ""
    try:
        return _run(arguments)
    except UsageMistake as error:
        return _fail(error, EXIT_USAGE)
    except OsmosisError as error:
        _blame_variable(error)
        return _fail(error, EXIT_ERROR)
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        return EXIT_ERROR
    except Exception as error:
        return _fail_unexpectedly(error)


def _run(arguments: list[str]) -> int:
    line = parse_line(arguments)
    if line.json and line.plain:
        raise ValidationFailed("--json and --plain exclude each other.")
    words = line.words
    if not words or words[0] in ("-h", "--help"):
        print(root_help())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"osmosis {__version__}")
        return 0
    entry = _entry(words[0])
    output.command = _command_name(entry, words)
    from osmosis.cli.session import session

    session.begin(line)
    try:
        return _invoke(entry, words[1:])
    finally:
        session.close()


def _entry(name: str) -> Entry:
    if name.startswith("-"):
        raise UsageMistake(
            f"There is no flag {name}.{did_you_mean(name, _FLAGS)}",
            hint="See `osmosis --help`.",
        )
    entry = ENTRIES.get(name)
    if entry is None:
        meant = did_you_mean(name, ENTRIES) or _as_subcommand(name)
        raise UsageMistake(f"There is no command '{name}'.{meant}", hint="See `osmosis --help`.")
    return entry


_FLAGS = ("--json", "--plain", "--platform", "--workspace", "--env-file", "--version", "--help")


def _as_subcommand(name: str) -> str:
    """``osmosis submit`` means ``osmosis eval submit``, although one can train, too."""
    groups = [entry.name for entry in ENTRIES.values() if name in entry.commands]
    alone = len(groups) == 1 or groups == ["eval", "train"]
    return f" Did you mean 'osmosis {groups[0]} {name}'?" if alone else ""


def _command_name(entry: Entry, words: list[str]) -> str:
    depth = 1 if not entry.commands else 3 if words[1:2] in (["endpoint"], ["admin"]) else 2
    named: list[str] = []
    for word in words[:depth]:
        if word.startswith("-"):
            break
        named.append(word)
    return " ".join(named)


def _invoke(entry: Entry, words: list[str]) -> int:
    """Load the group's commands and run the one that is asked for."""
    import click

    from osmosis.cli.output.questions import Declined
    from osmosis.cli.output.render import show

    command: click.Command = importlib.import_module(f"osmosis.cli.commands.{entry.module}").app
    if entry.commands and not words:
        words = ["--help"]
    try:
        result = command.main(args=words, prog_name=f"osmosis {entry.name}", standalone_mode=False)
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError" and error.ctx:
            print(error.ctx.get_help())  # a group inside a group, such as `osmosis model endpoint`
            return 0
        raise _usage_mistake(error) from None
    except click.Abort:
        return _interrupted()
    except Declined:
        print("Nothing was done.", file=sys.stderr)
        return 0
    if isinstance(result, int):
        return result
    if result is None:
        return 0
    show(result)
    return result.exit_code


def _usage_mistake(error: Any) -> UsageMistake:
    """A Click usage error in our words, with the near name where Click gives none."""
    message = " ".join(str(error.format_message()).split())
    context = error.ctx
    if context is None:
        return UsageMistake(message)
    commands = getattr(context.command, "commands", None)
    if message.startswith("No such command") and "Did you mean" not in message and commands:
        message += did_you_mean(message.split("'")[1], commands)
    if not message.endswith((".", "?", ")")):
        message += "."
    return UsageMistake(message, hint=f"See `{context.command_path} --help`.")


def _interrupted() -> int:
    from osmosis.cli.output.messages import note

    note("\nInterrupted.")
    return EXIT_INTERRUPTED


def _blame_variable(error: OsmosisError) -> None:
    """A refused token from the environment: a login would not help, for the variable wins."""
    refused = (error.platform_code or "").startswith("TOKEN_")
    if refused and os.environ.get("OSMOSIS_TOKEN") and output.command != "auth login":
        error.hint = "It is the token in OSMOSIS_TOKEN: set that anew, or unset it."


def _fail(error: OsmosisError, code: int) -> int:
    from osmosis.cli.output.messages import show_error, show_traceback

    show_error(error)
    show_traceback(error)
    return code


def _fail_unexpectedly(error: Exception) -> int:
    name = type(error).__name__
    internal = OsmosisError(
        f"Unexpected {name}: {error}" if str(error) else f"Unexpected {name}.",
        hint="Set OSMOSIS_DEBUG=1 to see where, and please report it.",
        details={"exception_type": name},
    )
    return _fail_chained(internal, error)


def _fail_chained(shown: OsmosisError, cause: Exception) -> int:
    from osmosis.cli.output.messages import show_error, show_traceback

    show_error(shown)
    show_traceback(cause)
    return EXIT_ERROR


if __name__ == "__main__":
    main()
