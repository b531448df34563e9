"""``osmosis eval watch`` and ``osmosis eval wait``: follow a run to its end, and judge it."""

from __future__ import annotations

from typing import Any

import click

from osmosis.cli.commands.options import latest_argument
from osmosis.cli.evals.gate import Gate, gate_flags
from osmosis.cli.output import Detail


@click.command("watch")
@latest_argument
def watch(name: str | None) -> Detail | int:
    """Follow a run until it ends, then show its results. Ctrl-C leaves the run alone."""
    return _wait(name)


@click.command("wait")
@latest_argument
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS",
    help="Wait no longer; a run that goes on then is incomplete.",
)  # fmt: skip
@gate_flags
def wait(name: str | None, *, timeout: float | None, **flags: Any) -> Detail | int:
    """Wait for a run and judge it by thresholds.

    Exit code 0: it finished and reaches every threshold; 1: it failed; 3: a threshold is missed;
    4: it is not whole (stopped, out of budget or time), or failures that are not the agent's
    leave a threshold undecided.
    """
    return _wait(name, gate=Gate.of(flags), timeout_s=timeout)


def _wait(name: str | None, **how: Any) -> Detail | int:
    # Only a command that talks to a platform needs it.
    from osmosis.cli.evals.waiting import EXIT_INTERRUPTED, latest_run, wait_for

    detail = wait_for(name or latest_run(), **how)
    return EXIT_INTERRUPTED if detail is None else detail
