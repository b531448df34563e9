"""A local run for people: what it will do, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from osmosis.cli.evals.plan_view import cache_rows, model_text
from osmosis.cli.evals.run_view import run_detail
from osmosis.cli.output import Detail, NextStep, Operation, Section
from osmosis.cli.output.format import plural
from osmosis.dataset.selection import format_ranges
from osmosis.metrics.documents import metrics_file, results_document
from osmosis.wire.verdict import EXIT_CODES
from osmosis.workspace.advanced_keys import ADVANCED_KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from osmosis.evaluation.local.dataset import LocalDataset
    from osmosis.evaluation.local.failures import FailedSample
    from osmosis.evaluation.local.run import Ended, LocalRun

MAX_MESSAGE_CHARS = 500


def plan_detail(run: LocalRun) -> Detail:
    """What is about to run here."""
    experiment, evaluation = run.config.experiment, run.config.evaluation
    selected, total = len(run.source_rows), run.dataset.total_rows
    rows = [
        ("Name", run.directory.name),
        ("Rollout", f"{experiment.rollout}/{experiment.entrypoint} (as it is on disk)"),
        ("Model", model_text(experiment.model_path, _replayed(run))),
        ("Dataset", str(run.dataset.path)),
        ("Rows", f"all {total:,}" if selected == total else f"{selected:,} of {total:,}"),
        ("Samples", f"{run.samples:,}"),
        ("In flight", f"at most {run.in_flight or evaluation.batch_size}"),
        *cache_rows(run.config),
        ("Results", str(run.directory.path)),
    ]
    sections = []
    if run.secrets:
        sections.append(
            Section(f"Secrets ({len(run.secrets)})", rows=[(name, "Run") for name in run.secrets])
        )
    return Detail(data={}, rows=rows, title="Local evaluation", sections=sections)


def _replayed(run: LocalRun) -> str | None:
    named = run.config.experiment.model_path.partition("/")[2]
    return next((one.model_path for one in run.replays if one.name == named), None)


def all_rows_note(dataset: LocalDataset) -> str:
    """Without a limit the two commands differ; say so."""
    return (
        f"The config sets no limit: all {dataset.total_rows:,} rows run here. A submitted run "
        f"would sample 10 %: {plural(dataset.submitted_rows, 'row')}."
    )


def operation(run: LocalRun, ended: Ended) -> Operation:
    """The result of the command."""
    facts, outcome = ended.facts, ended.outcome
    complete = ended.pending == 0
    status = "finished" if complete else ("failed" if outcome.error else "incomplete")
    document = _document(run, ended, status)
    detail = run_detail(document, None, None, {"workspace_directory": str(run.root)})
    if ended.failures:
        detail.sections = [*detail.sections, _examples(ended.failures)]
    name = facts.name
    resource: dict[str, Any] = {
        "local_run_id": facts.local_run_id,
        "name": name,
        "path": str(run.directory.path),
        "status": status,
        "total": facts.total_runs,
        "completed": facts.total_runs - ended.pending,
        "pending": ended.pending,
        "ran": ended.ran,
        "resumed": facts.total_runs - ended.pending - ended.ran,
        "results": document["results"],
        "metrics": metrics_file(ended.summary, eval_run={})["summary"],
        "failed_rows": [_failed_row(failure) for failure in ended.failures],
    }
    if outcome.error:
        resource["error"] = outcome.error.model_dump(exclude_none=True)
    if outcome.stop_message:
        resource |= {"stop_reason": outcome.stop_reason, "stop_message": outcome.stop_message}
    if ended.archived:
        resource["archived"] = str(ended.archived)
    return Operation(
        operation="eval.run",
        message=_message(ended, name),
        status="success" if complete else status,
        resource=resource,
        next_steps=_steps(run, complete=complete, more=_raised(ended)),
        detail=detail,
        exit_code=0 if complete else EXIT_CODES["incomplete"] if outcome.stop_message else 1,
    )


def _failed_row(failure: FailedSample) -> dict[str, Any]:
    record = failure.record
    return {
        "row_index": record.row_index,
        "source_row_index": record.source_row_index,
        "run_index": record.run_index,
        "rollout_id": record.rollout_id,
        "error_type": record.error_type,
        "error_message": failure.message,
        "rollout_dir": str(failure.directory),
    }


def _examples(failures: Sequence[FailedSample]) -> Section:
    """What the first sample of each kind of error said."""
    first: dict[str, FailedSample] = {}
    for failure in failures:
        first.setdefault(str(failure.record.error_type), failure)
    rows = [
        (
            f"Row {failure.record.row_index}, run {failure.record.run_index}",
            f"{kind}: {(failure.message or 'it says no more')[:MAX_MESSAGE_CHARS]}",
        )
        for kind, failure in first.items()
    ]
    return Section("The first of each error", rows=rows)


def _message(ended: Ended, name: str) -> str:
    if ended.pending == 0:
        return f"The local run {name} is complete."
    pending = f"{plural(ended.pending, 'sample')} still open"
    if error := ended.outcome.error:
        return f"The local run {name} ended early, with {pending}: {error.message}"
    if message := ended.outcome.stop_message:
        return f"The local run {name} was stopped, with {pending}. {message}"
    return f"The local run {name} was interrupted, with {pending}."


def _raised(ended: Ended) -> str:
    """The flag without which the same command would stop at once."""
    budget = ended.outcome.stop_message or ""
    keys = ("max_cost_usd", "max_total_tokens")
    flags = [ADVANCED_KEYS[key].flag for key in keys if key in budget]
    return f" {flags[0]} N" if flags else ""


def _steps(run: LocalRun, *, complete: bool, more: str) -> tuple[NextStep, ...]:
    path = run.directory.path
    if complete:
        return (
            NextStep("Files:", str(path)),
            NextStep("Import it into the platform:", f"osmosis eval upload {path}"),
        )
    config = run.provenance.get("config_path", "CONFIG")
    return (
        NextStep("Log:", str(run.directory.logs)),
        NextStep("Go on with it:", f"osmosis eval run {config} --name {run.directory.name}{more}"),
    )


def _document(run: LocalRun, ended: Ended, status: str) -> dict[str, Any]:
    """The run in the shape of the platform's documents."""
    facts, config = ended.facts, run.config
    results = results_document(
        ended.summary, sampled_rows=facts.sampled_rows, total_dataset_rows=facts.total_dataset_rows
    )
    error = ended.outcome.error
    return {
        "eval_run": {
            "id": facts.local_run_id,
            "name": facts.name,
            "status": status,
            "created_at": facts.started_at,
            "started_at": facts.started_at,
            "completed_at": ended.completed_at,
            "creator_name": "this machine",
        },
        "config": {
            **config.evaluation.model_dump(exclude_none=True),
            "model_path": config.experiment.model_path,
        },
        "results": results,
        "dataset": config.experiment.dataset,
        "rollout": config.experiment.rollout,
        "entrypoint": config.experiment.entrypoint,
        "commit_sha": run.provenance.get("git_head"),
        "branch": run.provenance.get("git_branch"),
        "env_config": dict(config.env),
        "resolved_secret_scopes": dict.fromkeys(run.secrets, "provided"),
        "selection": {
            "kind": "first",
            "rows": format_ranges(run.source_rows),
            "selected_rows": facts.sampled_rows,
            "total_rows": facts.total_dataset_rows,
        },
        "effective": ended.effective,
        **({"error": error.model_dump(exclude_none=True)} if error else {}),
    }
