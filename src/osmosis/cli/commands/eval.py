"""``osmosis eval``: submit evaluation runs, follow them, read the results."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

import click

from osmosis.cli.commands import (
    eval_compare,
    eval_export,
    eval_local,
    eval_rerun,
    eval_rubric,
    eval_samples,
    eval_wait,
)
from osmosis.cli.commands.log_lines import log_listing
from osmosis.cli.commands.options import (
    FILE,
    LOG_LIMIT,
    advanced_flags,
    advanced_values,
    cursor_flag,
    group,
    latest_argument,
    log_limit_flag,
    paging,
    paging_flags,
    yes_flag,
)
from osmosis.cli.evals.certainty_view import grouped_section
from osmosis.cli.evals.gate import Gate, gate_flags
from osmosis.cli.evals.run_view import TERMINAL, part, status_text, summary
from osmosis.cli.evals.waiting import detail_of, latest_run, wait_after
from osmosis.cli.evals.worst_view import worst_section
from osmosis.cli.output import Column, Detail, Listing, NextStep, Operation
from osmosis.cli.output.format import minute, moment, name_of, number, one_line, percent, text
from osmosis.cli.output.messages import note, show_note, warn
from osmosis.cli.output.mode import output
from osmosis.cli.output.questions import confirm
from osmosis.cli.output.render import to_json
from osmosis.cli.session import session
from osmosis.wire.errors import OsmosisError, ValidationFailed
from osmosis.workspace.advanced_keys import ADVANCED_KEYS, LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

FOLLOW_POLL_S = 0.5

app = group("eval", "Submit evaluation runs, follow them, read the results.")
app.add_command(eval_compare.compare)
app.add_command(eval_rerun.rerun)
app.add_command(eval_local.run)
app.add_command(eval_local.upload)
app.add_command(eval_wait.watch)
app.add_command(eval_wait.wait)
app.add_command(eval_samples.samples)
app.add_command(eval_samples.show)
app.add_command(eval_rubric.rubric)
app.add_command(eval_export.export)

FLAGS = {
    "model": "experiment.model_path",
    "dataset": "experiment.dataset",
    "branch": "experiment.branch",
    "commit": "experiment.commit_sha",
    "limit": "evaluation.limit",
    "n": "evaluation.n",
    "batch_size": "evaluation.batch_size",
}
"""Flags of a submit and the keys of the config that they stand for."""


@app.command()
@click.argument("config")
@yes_flag
@click.option("--watch", "--wait", is_flag=True, help="Follow the run and show its results.")
@gate_flags
@click.option(
    "--secrets-file",
    metavar="FILE",
    help="NAME=value lines with secrets for this run only; - reads them from a pipe.",
)
@click.option("--model", metavar="MODEL", help="In place of model_path.")
@click.option("--dataset", metavar="NAME", help="In place of dataset.")
@click.option("--limit", type=int, metavar="N", help="In place of limit.")
@click.option("--n", type=int, metavar="N", help="In place of n.")
@click.option("--batch-size", type=int, metavar="N", help="In place of batch_size.")
@click.option("--branch", metavar="BRANCH", help="In place of branch.")
@click.option("--commit", metavar="SHA", help="In place of commit_sha.")
@advanced_flags(ADVANCED_KEYS)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any other key of the config: --set evaluation.pass_threshold=0.5.",
)
def submit(
    config: str,
    *,
    yes: bool,
    watch: bool,
    secrets_file: str | None,
    settings: Sequence[str],
    **flags: Any,
) -> Operation | int:
    """Check a config, show the plan, and start the run on the platform.

    The code is the pushed commit; the config is the file as it is on disk, with the flags in
    place of its keys. A threshold waits for the end of the run; see `osmosis eval wait` for its
    meaning and the exit codes.
    """
    # Only a submit reads configs and imports rollouts.
    from osmosis.cli.evals import plan_view, preparation, secret_values
    from osmosis.workspace.config import submission_body

    gate = Gate.of(flags)
    named = {key: flags[flag] for flag, key in FLAGS.items()}
    named |= {f"advanced.{key}": value for key, value in advanced_values(flags).items()}
    overrides = preparation.parse_overrides(settings, named)
    prepared = preparation.prepare(session.root, config, overrides)
    secrets = secret_values.resolve(session.api, prepared.config.secrets.required, secrets_file)
    body = submission_body(prepared.config, secrets.provided)
    plan = _plan(body)
    warnings = [*prepared.warnings, *_plan_warnings(plan, prepared.state.head)]
    warnings += plan_view.budget_warnings(prepared.config)
    shown = plan_view.plan_detail(prepared.config, plan, secrets.scopes)
    show_note(shown)
    for warning in warnings:
        warn("SUBMIT", warning)
    confirm("Start this run?", yes=yes, default=True, warnings=warnings, summary=dict(shown.rows))
    started = session.api.submit_eval(body)
    name = str(started["name"])
    operation = _submitted(started, prepared.config, plan)
    if not watch and not gate:
        return operation
    note(f"The run {name} is submitted.")
    return wait_after(operation, name, gate=gate, told=warnings)


@app.command("list")
@paging_flags
def list_runs(limit: int | None, everything: bool) -> Listing:
    """List the runs of the workspace, newest first."""
    chosen = paging(limit, everything)
    page = session.api.evals(**chosen)
    return Listing(
        items=[_list_item(run) for run in page.items],
        rows=page.items,
        columns=(
            Column("Name", lambda r: text(r.get("name")), kind="name"),
            Column("Status", status_text, kind="status"),
            Column("Rollout", lambda r: name_of(r.get("rollout"))),
            Column("Model", lambda r: name_of(r.get("model"))),
            Column("Reward", lambda r: number(part(r, "results").get("score"), 2), "right"),
            Column("Passed", _pass_rate, "right"),
            Column("Submitted", lambda r: minute(r.get("created_at")), kind="time"),
            Column("Submitted by", lambda r: text(r.get("creator_name"))),
        ),
        total_count=page.total_count,
        has_more=page.has_more,
        next_offset=page.next_offset,
        extra={**page.extra, **session.context},
        empty="No runs yet.",
        hints=()
        if page.items
        else (NextStep("Start one:", "osmosis eval submit configs/eval/FILE.toml"),),
    )


@app.command()
@latest_argument
@click.option(
    "--output", "-o", type=FILE, metavar="ROOT", help="Save the numbers as ROOT/metrics.json."
)
@click.option(
    "--cluster-by",
    metavar="COLUMN",
    help="Intervals for rows that share this column of the dataset, too.",
)
def info(name: str | None, output: Path | None, cluster_by: str | None) -> Detail:
    """Show a run with its configuration and results; without a name, the latest run."""
    document = session.api.eval(name or latest_run())
    detail = detail_of(document)
    if worst := worst_section(document):
        detail.sections = [*detail.sections, worst]
    if cluster_by:
        run_id = str(part(document, "eval_run")["id"])
        answer = session.api.eval_intervals(run_id, cluster_by)
        detail.data = {**detail.data, "grouped": answer}
        detail.sections = [*detail.sections, grouped_section(answer)]
    if output is not None:
        # Only a download needs it.
        from osmosis.cli.evals.download import save_metrics

        path, problem = save_metrics(part(document, "eval_run"), output)
        detail.data = {**detail.data, "output_path": path, "save_warning": problem}
        if problem:
            warn("SAVE", problem)
        detail.rows = [*detail.rows, *([("Saved", path)] if path else [])]
    return detail


@app.command()
@latest_argument
@log_limit_flag
@cursor_flag
@click.option(
    "--follow", "-f", is_flag=True, help="Go on with new entries until the run has ended."
)
def logs(name: str | None, limit: int, cursor: str | None, follow: bool) -> Listing | None:
    """Show a run's log, oldest entry first."""
    ref = name or latest_run()
    if follow:
        if cursor:
            raise ValidationFailed("--follow and --cursor exclude each other.")
        _follow(ref, limit)
        return None
    page = session.api.eval_logs(ref, limit=limit, cursor=cursor)
    return log_listing(page, f"osmosis eval logs {ref}", session.context)


@app.command()
@click.argument("name")
@click.option(
    "--type",
    "types",
    default="metrics,trajectories",
    metavar="LIST",
    help="What to fetch, by commas: metrics, trajectories, artifacts, logs; or all.",
)
@click.option("--rows", metavar="SPEC", help="Only these rows, from 0: 3,7,10-20.")
@click.option(
    "--output",
    "-o",
    type=FILE,
    metavar="DIR",
    help="The directory to write (else .osmosis/evals/NAME in the workspace).",
)
@click.option("--overwrite", is_flag=True, help="Fetch also what is there with its size.")
@yes_flag
def download(
    name: str, types: str, *, rows: str | None, output: Path | None, overwrite: bool, yes: bool
) -> Operation:
    """Fetch the files of a run. More than 100 MiB asks first."""
    # Only a download needs it.
    from osmosis.cli.evals import download as downloading

    return downloading.download(
        name, types=types, rows=rows, output=output, overwrite=overwrite, yes=yes
    )


@app.command()
@click.argument("name")
@yes_flag
@click.option(
    "--secrets-file",
    metavar="FILE",
    help="NAME=value lines with secrets that only the run had; - reads them from a pipe.",
)
@click.option(
    "--regrade",
    is_flag=True,
    help="Grade the stored samples again instead; the policy is not called.",
)
@click.option("--branch", metavar="NAME", help="With --regrade: the grader of this pushed branch.")
@click.option("--commit-sha", metavar="SHA", help="With --regrade: the grader of this commit.")
@advanced_flags(LIMITS)
@click.option("--watch", is_flag=True, help="Follow the run and show its results.")
def retry(
    name: str,
    *,
    yes: bool,
    secrets_file: str | None,
    regrade: bool,
    branch: str | None,
    commit_sha: str | None,
    watch: bool,
    **flags: Any,
) -> Operation | int:
    """Run the failed, skipped and pending samples of an ended run again.

    A run that was stopped by its budget goes on with a higher one: --max-cost-usd 5.
    """
    # Only a retry needs it.
    from osmosis.cli.evals import retry as retrying

    limits = advanced_values(flags)
    if regrade:
        confirm(f"Grade the stored samples of {name} again?", yes=yes, default=True)
        operation = retrying.regrade(name, secrets_file, branch, commit_sha, limits)
    else:
        if branch or commit_sha:
            raise click.UsageError("--branch and --commit-sha choose a grader: add --regrade.")
        confirm(f"Run the failed and skipped samples of {name} again?", yes=yes, default=True)
        operation = retrying.retry(name, secrets_file, limits)
    return wait_after(operation, name) if watch else operation


@app.command()
@click.argument("name")
@yes_flag
def stop(name: str, yes: bool) -> Operation:
    """Stop a pending or running run. Samples that were graded are kept."""
    confirm(f"Stop the run {name}?", yes=yes, default=True)
    session.api.stop_eval(name)
    return Operation(
        operation="eval.stop",
        message=f"The run {name} is being stopped.",
        resource={"name": name, **session.context},
        next_steps=(NextStep("What it has so far:", f"osmosis eval info {name}"),),
    )


@app.command()
@click.argument("name")
@yes_flag
def delete(name: str, yes: bool) -> Operation:
    """Delete a run with its samples, trajectories and logs."""
    run = part(session.api.eval(name), "eval_run")
    confirm(f"Delete the run {run.get('name')} and all its results?", yes=yes)
    session.api.delete_eval(str(run["id"]))
    return Operation(
        operation="eval.delete",
        message=f"The run {run.get('name')} is deleted.",
        resource={"id": run["id"], "name": run.get("name"), **session.context},
    )


def _plan(body: dict[str, Any]) -> dict[str, Any] | None:
    """The platform's plan; None from a platform that makes none."""
    try:
        return session.api.plan_eval(body)
    except OsmosisError as error:
        unsupported = error.platform_code in (None, "NOT_SUPPORTED")
        if error.http_status in (404, 405) and unsupported and "Secret" not in error.message:
            return None
        raise


def _plan_warnings(plan: dict[str, Any] | None, head: str | None) -> list[str]:
    if plan is None:
        return []
    warnings = [str(warning) for warning in plan.get("warnings") or []]
    commit = plan.get("commit_sha")
    if commit and head and not head.startswith(str(commit)) and commit != head:
        where = f" of {plan['branch']}" if plan.get("branch") else ""
        warnings.append(f"The run uses commit {str(commit)[:7]}{where}; your HEAD is {head[:7]}.")
    return warnings


def _submitted(
    started: Mapping[str, Any], config: Any, plan: Mapping[str, Any] | None
) -> Operation:
    experiment = config.experiment
    name = str(started["name"])
    plan = plan or {}
    steps = [NextStep("Follow it:", f"osmosis eval watch {name}")]
    if started.get("platform_url"):
        steps.append(NextStep("View:", str(started["platform_url"])))
    resource = {
        "id": started["id"],
        "name": name,
        "status": started["status"],
        "model_name": experiment.model_path,
        "dataset_name": experiment.dataset,
        "created_at": started["created_at"],
        **({"url": started["platform_url"]} if started.get("platform_url") else {}),
        "config": {
            "rollout": experiment.rollout,
            "entrypoint": experiment.entrypoint,
            "model": experiment.model_path,
            "dataset": experiment.dataset,
            "branch": experiment.branch or plan.get("branch"),
            "commit_sha": experiment.commit_sha or plan.get("commit_sha"),
        },
        **session.context,
    }
    return Operation(
        operation="eval.submit",
        message=f"The run {name} is submitted ({experiment.model_path} on {experiment.dataset}).",
        resource=resource,
        next_steps=steps,
    )


def _list_item(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run in JSON: references by name, as the contract lists them."""
    item = dict(run)
    for key in ("model", "dataset", "rollout"):
        name = name_of(run.get(key))
        item[key] = None if name == "-" else name
    item["summary"] = summary(run, run.get("results"), run.get("config"))
    return item


def _pass_rate(run: Mapping[str, Any]) -> str:
    results = part(run, "results")
    return percent(results.get("pass_rate")) if results.get("graded") else "-"


def _follow(ref: str, limit: int) -> None:
    """Print entries as they come, until the run has ended and its log is read."""
    recent: deque[dict[str, Any]] = deque(maxlen=limit)
    cursor: str | None = None
    while True:
        page = session.api.eval_logs(ref, direction="newer", cursor=cursor, limit=LOG_LIMIT)
        cursor = page.next_cursor or cursor
        recent.extend(page.entries)
        if len(page.entries) < LOG_LIMIT:
            break
    _print_entries(recent)
    while True:
        ended = part(session.api.eval(ref), "eval_run").get("status") in TERMINAL
        newer = session.api.eval_logs(ref, direction="newer", cursor=cursor, limit=LOG_LIMIT)
        cursor = newer.next_cursor or cursor
        _print_entries(newer.entries)
        if not newer.entries:
            if ended:
                return
            time.sleep(FOLLOW_POLL_S)


def _print_entries(entries: Iterable[dict[str, Any]]) -> None:
    for entry in entries:
        if output.mode == "json":
            line = to_json(entry)
        else:
            level = text(entry.get("level"))
            parts = [moment(entry.get("timestamp")), level, text(entry.get("step"))]
            line = "\t".join([*parts, one_line(text(entry.get("message")))])
            if output.mode == "rich":
                line = line.replace("\t", "  ")
        print(line, flush=True)
