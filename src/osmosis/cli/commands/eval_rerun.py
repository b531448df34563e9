"""``osmosis eval rerun``: the same rows, seeds and settings on another commit or model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from osmosis.cli.arguments import UsageMistake
from osmosis.cli.commands.options import yes_flag
from osmosis.cli.output import NextStep, Operation
from osmosis.cli.output.format import plural
from osmosis.cli.output.messages import warn
from osmosis.cli.output.questions import confirm
from osmosis.cli.session import session
from osmosis.wire.errors import OsmosisError

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.command()
@click.argument("name")
@click.option("--commit-sha", metavar="SHA", help="The code of this pushed commit.")
@click.option("--branch", metavar="BRANCH", help="The newest pushed code of this branch.")
@click.option("--model", metavar="MODEL", help="In place of the run's model_path.")
@yes_flag
@click.option(
    "--secrets-file",
    metavar="FILE",
    help="NAME=value lines with secrets that only the run had; - reads them from a pipe.",
)
@click.option("--watch", is_flag=True, help="Follow the new run and show its results.")
def rerun(
    name: str,
    *,
    commit_sha: str | None,
    branch: str | None,
    model: str | None,
    yes: bool,
    secrets_file: str | None,
    watch: bool,
) -> Operation | int:
    """Run the same rows, seeds and settings as a run once more, on other code or another model.

    Without a flag it repeats the run as it was: that shows how much its numbers move by themselves.
    """
    if commit_sha and branch:
        raise UsageMistake("--commit-sha and --branch exclude each other.")
    asked = {"commit_sha": commit_sha, "branch": branch, "model": model}
    body = {key: value for key, value in asked.items() if value}
    changes = " and ".join(f"{key.replace('_', ' ')} {value}" for key, value in body.items())
    question = f"Run the rows of {name} again with {changes or 'nothing changed'}?"
    confirm(question, yes=yes, default=True)
    answer = _start(name, body, secrets_file)
    for warning in answer.get("warnings") or []:
        warn("SUBMIT", str(warning))
    operation = _operation(answer)
    if not watch:
        return operation
    # Only a watch needs it.
    from osmosis.cli.evals.waiting import wait_after

    compare = operation.next_steps[-1]
    ended = wait_after(operation, str(answer["name"]))
    if isinstance(ended, Operation):
        ended.next_steps = (NextStep("Compare:", compare.command),)
    return ended


def _start(name: str, body: Mapping[str, Any], secrets_file: str | None) -> dict[str, Any]:
    """Ask the platform; values that only the run knew are given anew."""
    try:
        return session.api.rerun_eval(name, body)
    except OsmosisError as error:
        needed = error.details.get("run_secret_names")
        if not isinstance(needed, list) or not needed:
            raise
        # Only such a run needs it.
        from osmosis.cli.evals.secret_values import resolve_here

        secrets = resolve_here([str(item) for item in needed], secrets_file).provided
        return session.api.rerun_eval(name, {**body, "secrets": dict(secrets)})


def _operation(answer: Mapping[str, Any]) -> Operation:
    name, before = str(answer["name"]), str(answer["rerun_of"]["name"])
    steps = [NextStep("Follow it:", f"osmosis eval watch {name}")]
    if answer.get("platform_url"):
        steps.append(NextStep("View:", str(answer["platform_url"])))
    steps.append(NextStep("Compare, once it has ended:", f"osmosis eval compare {before} {name}"))
    return Operation(
        operation="eval.rerun",
        message=(
            f"The run {name} repeats {before}: {plural(int(answer['samples']), 'sample')}, "
            f"{answer['model_name']}, commit {str(answer['commit_sha'])[:7]}."
        ),
        resource={
            key: answer.get(key)
            for key in (
                "id", "name", "status", "created_at", "platform_url", "rerun_of", "commit_sha",
                "branch", "model_name", "dataset_name", "samples",
            )
        }
        | dict(session.context),
        next_steps=steps,
    )  # fmt: skip
