"""``osmosis train``: training runs, where the platform trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from osmosis.cli.commands.log_lines import log_listing
from osmosis.cli.commands.options import (
    FILE,
    cursor_flag,
    group,
    log_limit_flag,
    paging,
    paging_flags,
    yes_flag,
)
from osmosis.cli.output import Column, Detail, Listing, NextStep, Operation
from osmosis.cli.output.format import minute, name_of, number, text
from osmosis.cli.output.questions import confirm
from osmosis.cli.session import session
from osmosis.cli.training.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

app = group("train", "Training runs, where the platform trains.")


@app.command()
@click.argument("config")
@yes_flag
@click.option(
    "--secrets-file",
    metavar="FILE",
    help="NAME=value lines with secrets for this run only; - reads them from a pipe.",
)
def submit(config: str, yes: bool, secrets_file: str | None) -> Operation:
    """Check a config of configs/training and start the run on the platform."""
    # Only a submit reads configs.
    from osmosis.cli.training.submission import submit as submit_training

    return submit_training(config, yes=yes, secrets_file=secrets_file)


@app.command("list")
@paging_flags
def list_runs(limit: int | None, everything: bool) -> Listing:
    """List the training runs of the workspace, newest first."""
    chosen = paging(limit, everything)
    page = session.api.training_runs(**chosen)
    return Listing(
        items=[_list_item(run) for run in page.items],
        rows=page.items,
        columns=(
            Column("Name", lambda r: text(r.get("name")), kind="name"),
            Column("Status", lambda r: text(r.get("status")), kind="status"),
            Column("Base model", lambda r: name_of(r.get("model"))),
            Column("Rollout", lambda r: name_of(r.get("rollout"))),
            Column("Reward", lambda r: number(r.get("reward"), 2), "right"),
            Column("Submitted", lambda r: minute(r.get("created_at")), kind="time"),
            Column("Submitted by", lambda r: text(r.get("creator_name"))),
        ),
        total_count=page.total_count,
        has_more=page.has_more,
        next_offset=page.next_offset,
        extra={**page.extra, **session.context},
        empty="No training runs.",
    )


@app.command()
@click.argument("name")
@click.option(
    "--output", "-o", type=FILE, metavar="FILE", help="Save the metrics as this JSON file."
)
def info(name: str, output: Path | None) -> Detail:
    """Show a training run with its metrics and checkpoints."""
    # Only this command draws a training run.
    from osmosis.cli.training.run_view import run_detail

    return run_detail(session.api.training_run(name), output)


@app.command()
@click.argument("name")
@log_limit_flag
@cursor_flag
def logs(name: str, limit: int, cursor: str | None) -> Listing:
    """Show a training run's log, oldest entry first."""
    page = session.api.training_logs(name, limit=limit, cursor=cursor)
    return log_listing(page, f"osmosis train logs {name}", session.context)


@app.command()
@click.argument("name")
@yes_flag
def stop(name: str, yes: bool) -> Operation:
    """Stop a training run. Its checkpoints are kept."""
    confirm(f"Stop the training run {name}?", yes=yes, default=True)
    session.api.stop_training(name)
    return Operation(
        operation="train.stop",
        message=f"The training run {name} is being stopped.",
        resource={"name": name, **session.context},
        next_steps=(NextStep("What it has so far:", f"osmosis train info {name}"),),
    )


def _list_item(run: Any) -> dict[str, Any]:
    """A run in JSON: references by id and name, as the contract lists them."""
    item = {key: value for key, value in run.items() if key not in ("model", "dataset", "rollout")}
    for key in ("model", "dataset", "rollout"):
        reference = run.get(key)
        name = name_of(reference)
        item[f"{key}_id"] = reference.get("id") if isinstance(reference, dict) else None
        item[f"{key}_name"] = None if name == "-" else name
    summary = {"reward": run["reward"]} if run.get("reward") is not None else {}
    item["summary"] = {**summary, **progress(run)}
    return item
