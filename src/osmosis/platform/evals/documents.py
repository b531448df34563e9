"""The shapes in which a run crosses HTTP (platform-api.md §3.4), and what ours adds to them.

The documented client stumbles over nulls in places: such keys are left out instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import Any, NamedTuple

from osmosis.metrics.documents import metrics_file, results_document
from osmosis.metrics.summary import Summary
from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Run, Sample, User
from osmosis.platform.paging import iso

TERMINAL = ("finished", "failed", "stopped")
MAX_SHOWN_ROWS_CHARS = 4000


def list_item(run: Run, creator: User | None, platform_url: str) -> dict[str, Any]:
    """One run in a list; everything comes from its row."""
    return {
        **_identity(run, creator, platform_url),
        "model": {"id": run.model_path, "name": run.model_path, "model_name": run.model_path},
        "dataset": dataset_reference(run),
        "rollout": {"id": run.rollout, "name": run.rollout},
        "config": config_document(run),
        "results": _counted_results(run),
    }


def detail(run: Run, creator: User | None, platform_url: str, summary: Summary) -> dict[str, Any]:
    """One run with its results, in the envelope that the client expects."""
    results = results_document(
        summary, sampled_rows=run.selected_rows, total_dataset_rows=run.total_rows
    )
    # The row is the latest; a big run's summary may be a moment older.
    results["total_runs"] = run.sample_count
    if run.resumed_count is not None:
        results["resumed_count"] = run.resumed_count
    return {
        "eval_run": {**_identity(run, creator, platform_url), **_progress(run)},
        "config": config_document(run),
        "dataset": dataset_reference(run),
        "rollout": {"id": run.rollout, "name": run.rollout},
        "results": {**results, **cost_document(run), **partial_document(run)},
        "entrypoint": run.entrypoint,
        "commit_sha": run.commit_sha,
        **({"branch": run.branch} if run.branch else {}),
        "env_config": run.env,
        "resolved_secret_scopes": run.secret_scopes,
        "selection": selection_document(run),
        "effective": run.effective,
        **({"replays": run.config["replays"]} if "replays" in run.config else {}),
        **budget_document(run),
        **({"regrade": regrade_document(run)} if run.regrade else {}),
        **_progress(run),
    }


def regrade_document(run: Run) -> dict[str, Any]:
    """Which grader the run's stored samples are graded by, or were in its last generation."""
    regrade: Mapping[str, Any] = run.regrade or {}
    shown = {key: regrade.get(key) for key in ("generation", "commit_sha", "branch", "samples")}
    return {key: value for key, value in shown.items() if value is not None}


def duration_ms(run: Run) -> float | None:
    """From the first claim to the end, or to now; never negative, whoever sets the clock."""
    if run.started_at is None:
        return None
    return max(0.0, ((run.completed_at or utc_now()) - run.started_at).total_seconds() * 1000.0)


def metrics_json(run: Run, summary: Summary) -> dict[str, Any]:
    """The contents of the download ``metrics.json``."""
    eval_run = {
        "id": run.id,
        "status": run.status,
        "name": run.name,
        "dataset_name": run.dataset_name,
        "model_name": run.model_path,
        "rollout_name": run.rollout,
        "duration_ms": duration_ms(run),
        "started_at": _time(run.started_at),
        "completed_at": _time(run.completed_at),
    }
    return metrics_file(summary, eval_run=eval_run)


def config_document(run: Run) -> dict[str, Any]:
    """The effective settings, flat, as a person reads them; absent ones left out."""
    evaluation: Mapping[str, Any] = run.config.get("evaluation", {})
    config = {key: value for key, value in evaluation.items() if value is not None}
    if advanced := run.config.get("advanced"):
        config["advanced"] = advanced
    return {**config, "model_path": run.model_path, "n": run.n}


def selection_document(run: Run) -> dict[str, Any]:
    """Which rows were chosen and how; a very long list of rows is cut and says so."""
    rows = str(run.selection.get("rows", ""))
    document: dict[str, Any] = {
        "kind": run.selection.get("kind"),
        "seed": run.selection.get("seed"),
        "rows": rows[:MAX_SHOWN_ROWS_CHARS],
        "selected_rows": run.selected_rows,
        "total_rows": run.total_rows,
    }
    if len(rows) > MAX_SHOWN_ROWS_CHARS:
        document["rows"] = rows[:MAX_SHOWN_ROWS_CHARS].rpartition(",")[0]
        document["rows_truncated"] = True
    return document


def dataset_reference(run: Run) -> dict[str, Any]:
    name = run.dataset_name
    return {"id": run.dataset_id or name, "name": name, "file_name": name}


def cost_document(run: Run) -> dict[str, Any]:
    """What the model calls cost, and what calls saved that no model had to answer.

    A cost that nobody knows is not in the sum, and is counted. ``lost_calls`` may have been
    charged too, and belong to no sample.
    """
    document: dict[str, Any] = {"samples_with_unknown_cost": run.cost_unknown_count}
    if run.cost_unknown_count < run.sample_count:
        document["cost_usd"] = run.cost_sum
    if run.judge_tokens_sum:
        document["judge_tokens"] = run.judge_tokens_sum
    if run.lost_calls:
        document["lost_calls"] = run.lost_calls
    if run.saved_calls_count:
        document["saved_calls"] = run.saved_calls_count
        document["samples_with_unknown_saving"] = run.saved_unknown_count
        if run.saved_sum or not run.saved_unknown_count:
            document["saved_usd"] = run.saved_sum
    return document


def budget_document(run: Run) -> dict[str, Any]:
    """The budgets of the run, allowed and spent, over all generations; empty without one."""
    advanced: Mapping[str, Any] = run.config.get("advanced", {})
    spent = {"max_cost_usd": round(run.spent_usd, 6), "max_total_tokens": run.spent_tokens}
    budget = {
        key: {"allowed": advanced[key], "spent": amount}
        for key, amount in spent.items()
        if advanced.get(key) is not None
    }
    return {"budget": budget} if budget else {}


def partial_document(run: Run) -> dict[str, Any]:
    """For a run that has ended without all its samples: its numbers are no full run's."""
    pending = run.selected_rows * run.n - run.sample_count
    ended = run.status in TERMINAL
    return {"partial": True, "pending": pending} if ended and pending > 0 else {}


def sample_item(sample: Sample) -> dict[str, Any]:
    """One sample in a list; absent values left out."""
    item: dict[str, Any] = {
        "row_index": sample.row_index,
        "run_index": sample.run_index,
        "source_row": sample.source_row,
        "rollout_id": sample.rollout_id,
        "status": sample.status,
        "reward": sample.reward,
        "error_type": sample.error_type,
        "error_message": sample.record.get("error_message"),
        "error_kind": sample.record.get("error_kind"),
        "tokens": sample.tokens,
        "cost_usd": sample.cost_usd,
        "saved_calls": sample.record.get("saved_calls"),
        "saved_usd": sample.record.get("saved_usd"),
        "duration_ms": sample.duration_ms,
        "interruptions": sample.record.get("interruptions"),
        "interrupted_tokens": sample.record.get("interrupted_tokens"),
        "interrupted_cost_usd": sample.record.get("interrupted_cost_usd"),
        "regraded": sample.record.get("regraded"),
        "has_trajectory": sample.record.get("trajectory_bytes") is not None,
    }
    return {key: value for key, value in item.items() if value is not None}


class SampleRow(NamedTuple):
    """What downloads need to know of a sample: plain columns, for there may be very many."""

    row_index: int
    run_index: int
    rollout_id: str
    status: str
    reward: float | None
    error_type: str | None
    tokens: int | None
    duration_ms: float
    record: dict[str, Any]
    created_at: datetime


def summary_row(sample: SampleRow, reopened_at: datetime | None = None) -> dict[str, Any]:
    """One line of ``summary.jsonl`` (platform-api.md §4.2); absent values left out."""
    row: dict[str, Any] = {
        "row_index": sample.row_index,
        "run_index": sample.run_index,
        "rollout_id": sample.rollout_id,
        "status": sample.status,
        "trajectory_filename": "trajectory.json"
        if sample.record.get("trajectory_bytes") is not None
        else None,
        "reward": sample.reward,
        "tokens": sample.tokens,
        "duration_ms": sample.duration_ms,
        "error_type": sample.error_type,
        "resumed": True if reopened_at and sample.created_at < reopened_at else None,
    }
    return {key: value for key, value in row.items() if value is not None}


def _identity(run: Run, creator: User | None, platform_url: str) -> dict[str, Any]:
    return {
        "id": run.id,
        "name": run.name,
        "status": run.status,
        "created_at": iso(run.created_at),
        "started_at": _time(run.started_at),
        "completed_at": _time(run.completed_at),
        "creator_name": (creator.name or creator.email) if creator else None,
        "creator_email": creator.email if creator else None,
        "platform_url": platform_url,
        "stage": run.stage,
        **({"origin": run.effective["origin"]} if "origin" in run.effective else {}),
    }


def _time(value: datetime | None) -> str | None:
    return iso(value) if value else None


def _progress(run: Run) -> dict[str, Any]:
    """What ours adds for people: the stage, the reason of the end, the error, what it waits for."""
    return {
        "stage": run.stage,
        "generation": run.generation,
        "stop_requested": run.stop_requested_at is not None,
        **({"stop_reason": run.stop_reason} if run.stop_reason else {}),
        **({"stop_message": run.stop_message} if run.stop_message else {}),
        **({"error": run.error} if run.error else {}),
        **({"waiting_for": run.waiting_for} if run.waiting_for else {}),
        **({"in_flight": run.in_flight} if run.in_flight is not None else {}),
    }


def _counted_results(run: Run) -> dict[str, Any]:
    completed = run.sample_count - run.skipped_count
    results: dict[str, Any] = {
        "pass_rate": run.passed_count / completed if completed else 0.0,
        "pass_threshold": run.pass_threshold,
        "graded": run.graded_count,
        "passed": run.passed_count,
        "failed": run.failed_count,
        "skipped": run.skipped_count,
        "total_runs": run.sample_count,
        "sampled_rows": run.selected_rows,
        "total_dataset_rows": run.total_rows,
        "total_tokens": run.tokens_sum,
        **cost_document(run),
        **partial_document(run),
    }
    if run.resumed_count is not None:
        results["resumed_count"] = run.resumed_count
    if run.graded_count and isfinite(run.reward_sum):
        results["score"] = run.reward_sum / run.graded_count
    return results
