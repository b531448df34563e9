"""``osmosis completion``: a script that completes command lines in a shell."""

from __future__ import annotations

import click

from osmosis.cli.commands.options import CONTEXT, EVERYWHERE
from osmosis.cli.output import Detail
from osmosis.cli.output.mode import output

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", epilog=EVERYWHERE, context_settings=CONTEXT)
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
def app(shell: str) -> Detail | None:
    """Print a script that completes commands and flags in SHELL: bash, zsh or fish.

    Put `source <(osmosis completion bash)` into ~/.bashrc, the same with zsh into ~/.zshrc, or
    `osmosis completion fish | source` into ~/.config/fish/config.fish.
    """
    # Loads every command.
    from osmosis.cli.completion import script

    text = script(shell)
    if output.mode == "json":
        return Detail(data={"shell": shell, "script": text}, rows=())
    print(text, end="")
    return None
