"""``osmosis eval export``: a run as one file for another tool."""

from __future__ import annotations

from pathlib import Path

import click

from osmosis.cli.commands.options import FILE
from osmosis.cli.output import NextStep, Operation
from osmosis.cli.output.format import size
from osmosis.cli.output.messages import note
from osmosis.cli.session import session

FORMATS = ("parquet", "jsonl", "csv", "inspect", "atif", "junit", "html")


@click.command("export")
@click.argument("name")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), required=True, help="What to write."
)
@click.option(
    "--output", "-o", type=FILE, metavar="PATH",
    help="The file, or a directory for it (else the current directory).",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
def export(name: str, *, format_: str, output: Path | None, overwrite: bool) -> Operation:
    """Write a run as one file: a table, an archive of trajectories, a log of Inspect, a report.

    parquet, jsonl and csv hold a row for each sample; atif a ZIP of ATIF documents; inspect a log
    that `inspect view` opens; junit what CI systems show; html a report that needs nothing else.
    """
    # Only a download needs it.
    from osmosis.client.exports import export_run

    target = output.expanduser() if output else None
    note(f"The platform writes {name} as {format_}.")
    export, path = export_run(session.api, name, format_, target, overwrite=overwrite)
    amount = path.stat().st_size
    steps: list[NextStep] = []
    if format_ == "inspect":
        steps.append(NextStep("Open it:", f"inspect view --log-dir {path.parent}"))
    return Operation(
        operation="eval.export",
        message=f"The run {export['run']} is at {path} ({size(amount)}).",
        resource={
            "run": export["run"],
            "format": format_,
            "output_path": str(path.absolute()),
            "bytes": amount,
            **session.context,
        },
        next_steps=steps,
    )
