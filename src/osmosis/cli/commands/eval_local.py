"""``osmosis eval run`` and ``osmosis eval upload``: evaluations on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from osmosis.cli.commands.options import advanced_flags, advanced_values, yes_flag
from osmosis.cli.output import NextStep, Operation
from osmosis.cli.output.messages import note
from osmosis.cli.session import session
from osmosis.workspace.advanced_keys import ADVANCED_KEYS

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
    help="The dataset, as a file (else data/DATASET.*, else the platform's).",
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
@advanced_flags(key for key in ADVANCED_KEYS if key != "sample_seed")
@click.option("--verbose", is_flag=True, help="Show the run's log while it runs.")
@click.option("--upload", "then_upload", is_flag=True, help="Import the complete run afterwards.")
def run(
    config: str,
    *,
    yes: bool,
    then_upload: bool,
    endpoints: Sequence[str],
    name: str | None,
    root: Path | None,
    dataset_file: Path | None,
    secrets_file: str | None,
    rows: str | None,
    fresh: bool,
    retry_failed: bool,
    max_in_flight: int | None,
    rollout_port: int | None,
    verbose: bool,
    **flags: Any,
) -> Operation | int:
    """Run an evaluation on this machine, without a server.

    Each result is on disk before the next sample takes its place, so a run that was interrupted
    goes on with the same command and --name. Exit code 1 means that samples are still open, 4 that
    a budget is spent.
    """
    # The engine is heavy; only this command loads it.
    from osmosis.cli.evals import local_run

    done = local_run.run(
        config,
        yes=yes,
        endpoints=endpoints,
        name=name,
        root=root,
        dataset_file=dataset_file,
        secrets_file=secrets_file,
        rows=rows,
        fresh=fresh,
        retry_failed=retry_failed,
        max_in_flight=max_in_flight,
        rollout_port=rollout_port,
        verbose=verbose,
        advanced=advanced_values(flags),
    )
    if isinstance(done, int) or not then_upload:
        return done
    if done.exit_code:
        note("The run is incomplete, so it is not uploaded.")
        return done
    imported = _upload(Path(str((done.resource or {})["path"])), replace=False)
    done.resource = {**(done.resource or {}), "import": imported}
    done.next_steps = _steps(imported)
    return done


@click.command("upload")
@click.argument("run_dir", metavar="RUN_DIR", type=DIRECTORY)
@click.option("--replace", is_flag=True, help="Replace what was imported from this run before.")
def upload(run_dir: Path, *, replace: bool) -> Operation:
    """Import a finished local run, by its directory or name, into the platform.

    The samples, their trajectories and artifacts and the log are sent; the platform computes the
    metrics itself. What was interrupted goes on with the same command.
    """
    imported = _upload(run_dir, replace=replace)
    return Operation(
        operation="eval.upload",
        message=f"The local run is imported as {imported['eval_run_name']}.",
        resource={**imported, **session.context},
        next_steps=_steps(imported),
    )


def _upload(run_dir: Path, *, replace: bool) -> dict[str, Any]:
    # Only an import reads run directories.
    from osmosis.cli.evals import local_upload

    return local_upload.upload(run_dir, replace=replace)


def _steps(imported: dict[str, Any]) -> tuple[NextStep, ...]:
    return (
        NextStep("View:", str(imported["platform_url"])),
        NextStep("Show it here:", f"osmosis eval info {imported['eval_run_name']}"),
    )
