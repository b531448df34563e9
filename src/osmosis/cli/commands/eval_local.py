"""``osmosis eval run``: evaluations on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from osmosis.cli.commands.options import yes_flag
from osmosis.cli.output import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

DIRECTORY = click.Path(path_type=Path)


@click.command("run")
@click.argument("config")
@yes_flag
@click.option(
    "--name", metavar="NAME", help="The run's name; the name of an earlier run resumes it."
)
@click.option(
    "-o", "--output", "root", type=DIRECTORY, metavar="ROOT",
    help="Where runs are kept (else .osmosis/evals in the workspace).",
)  # fmt: skip
@click.option(
    "--dataset-file", type=DIRECTORY, metavar="FILE",
    help="The dataset, as a file (else data/DATASET.jsonl, .csv or .parquet).",
)  # fmt: skip
@click.option(
    "--secrets-file", metavar="FILE",
    help="NAME=value lines with the required secrets; - reads them from a pipe.",
)  # fmt: skip
@click.option("--rows", metavar="SPEC", help="Only these rows, from 0: 3,7,10-20. Beats limit.")
@click.option("--fresh", is_flag=True, help="Put an earlier run of this name aside; start over.")
@click.option(
    "--retry-failed", is_flag=True, help="Run failed and skipped samples of the run again."
)
@click.option(
    "--max-in-flight", type=click.IntRange(min=1), metavar="N", help="In place of batch_size."
)
@click.option(
    "--endpoint", "endpoints", multiple=True, metavar="NAME=URL",
    help="The address of a named endpoint of the config; its key is NAME_API_KEY.",
)  # fmt: skip
@click.option(
    "--rollout-port", type=click.IntRange(1, 65535), metavar="PORT",
    help="The port of the rollout server (else a free one).",
)  # fmt: skip
@click.option("--verbose", is_flag=True, help="Show the run's log while it runs.")
def run(config: str, *, yes: bool, endpoints: Sequence[str], **options: Any) -> Operation | int:
    """Run an evaluation on this machine, without a server.

    Each result is on disk before the next sample takes its place, so a run that was interrupted
    goes on with the same command and --name. Exit code 1 means that samples are still open.
    """
    # The engine is heavy; only this command loads it.
    from osmosis.cli.evals import local_run

    return local_run.run(config, yes=yes, endpoints=endpoints, **options)
