"""A training run as ``osmosis train info`` shows it (platform-api.md §3.7 and §6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from osmosis.cli.evals.run_view import part
from osmosis.cli.output import Detail, Section
from osmosis.cli.output.format import moment, name_of, number, text
from osmosis.cli.output.messages import warn
from osmosis.cli.output.render import to_json
from osmosis.cli.session import session
from osmosis.cli.training.progress import progress
from osmosis.wire.errors import OsmosisError

WAITING = ("pending", "queued")
TERMINAL = ("finished", "failed", "crashed", "stopped", "killed", "unknown")
EXPORTED = {
    "rollout/raw_reward": "training_reward",
    "eval/validation/reward": "validation_reward",
    "train/entropy_loss": "entropy",
    "rollout/response_lengths": "response_length",
    "rollout/total_lengths": "total_length",
    "rollout/truncated_ratio": "truncation_ratio",
}
"""Keys of metrics on the platform, and their names in what is shown and saved."""


def run_detail(document: dict[str, Any], output: Path | None) -> Detail:
    """The run with its metrics and, once it has ended, its checkpoints."""
    run = part(document, "training_run")
    status = str(run.get("status"))
    metrics, problem = _metrics(str(run["id"]), status)
    checkpoints = _checkpoints(str(run["id"])) if status in TERMINAL else []
    saved, save_warning = _save(run, metrics, output)
    done = progress(run)
    data = {
        "training_run": dict(run),
        **{key: document.get(key) for key in ("config", "model", "dataset", "rollout")},
        "summary": {"reward": run.get("reward"), **done},
        "checkpoints": checkpoints,
        "in_progress": status not in TERMINAL,
        "metrics_available": metrics is not None,
        "metrics_error": problem,
        "metrics": metrics,
        "output_path": saved,
        "save_warning": save_warning,
        **session.context,
    }
    steps = done.get("progress")
    rows = [
        ("Name", text(run.get("name"))),
        ("Status", status),
        ("Progress", f"{steps['completed']} of {steps['total']} steps" if steps else "-"),
        ("Reward", number(run.get("reward"))),
        ("Submitted", moment(run.get("created_at"))),
        ("Started", moment(run.get("started_at"))),
        ("Completed", moment(run.get("completed_at"))),
        ("Base model", name_of(document.get("model"))),
        ("Dataset", name_of(document.get("dataset"))),
        ("Rollout", name_of(document.get("rollout"))),
        *([("Saved", saved)] if saved else []),
    ]
    return Detail(data=data, rows=rows, sections=_sections(metrics, checkpoints))


def _metrics(run_id: str, status: str) -> tuple[dict[str, Any] | None, str | None]:
    """The metrics under their exported names; a failing call is told, not raised."""
    if status in WAITING:
        return None, None
    try:
        answer = session.api.training_metrics(run_id)
    except OsmosisError as error:
        return None, error.message
    overview = part(answer, "overview")
    return {
        "overview": {key: v for key, v in overview.items() if key != "metric_summaries"},
        "summaries": _renamed(overview.get("metric_summaries"), "key"),
        "series": _renamed(answer.get("metrics"), "metric_key"),
    }, None


def _renamed(entries: Any, key: str) -> dict[str, Any]:
    return {EXPORTED.get(str(entry[key]), str(entry[key])): entry for entry in entries or []}


def _checkpoints(run_id: str) -> list[dict[str, Any]]:
    try:
        return session.api.training_checkpoints(run_id)
    except OsmosisError:
        return []


def _save(
    run: Any, metrics: dict[str, Any] | None, output: Path | None
) -> tuple[str | None, str | None]:
    if output is None or metrics is None:
        return None, None
    path = output.expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json({"training_run": dict(run), **metrics}) + "\n", "utf-8")
    except OSError as error:
        problem = f"{path} cannot be written: {error.strerror}."
        warn("SAVE", problem)
        return None, problem
    return str(path.absolute()), None


def _sections(metrics: dict[str, Any] | None, checkpoints: list[dict[str, Any]]) -> list[Section]:
    sections: list[Section] = []
    if metrics and metrics["summaries"]:
        rows = [
            (
                str(summary.get("title") or key),
                f"{number(summary.get('initial'))} → {number(summary.get('latest'))} "
                f"(least {number(summary.get('min'))}, most {number(summary.get('max'))})",
            )
            for key, summary in metrics["summaries"].items()
        ]
        sections.append(Section("Metrics", rows))
    if checkpoints:
        lines = [
            f"{text(c.get('checkpoint_name'))}  step {text(c.get('checkpoint_step'))}  "
            f"{text(c.get('status'))}"
            for c in checkpoints
        ]
        sections.append(Section("Checkpoints", lines=lines))
    return sections
