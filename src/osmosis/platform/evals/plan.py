"""What a submit would run, without running it."""

from __future__ import annotations

from typing import Any

from osmosis.platform.evals.submission import Submission, stored_config


def plan_document(submission: Submission) -> dict[str, Any]:
    """The body of ``POST /api/cli/eval-runs/plan``.

    A seed that nobody set is drawn at submit, so the plan shows none.
    """
    config = submission.config
    rows = len(submission.selection.source_rows)
    stored = stored_config(config)
    evaluation = {key: value for key, value in stored["evaluation"].items() if value is not None}
    plan: dict[str, Any] = {
        "rollout": config.experiment.rollout,
        "entrypoint": config.experiment.entrypoint,
        "model_path": config.experiment.model_path,
        "dataset": {"id": submission.dataset.id, "name": submission.dataset.name},
        "total_rows": submission.total_rows,
        "selected_rows": rows,
        "n": config.evaluation.n,
        "samples": submission.samples,
        "selection": {
            "kind": submission.selection.kind,
            "seed": config.advanced.sample_seed,
        },
        "branch": submission.commit.branch,
        "commit_sha": submission.commit.commit_sha,
        "config": evaluation,
        "advanced": stored["advanced"],
        "env_config": dict(config.env),
        "secret_scopes": submission.secret_scopes,
        "warnings": submission.warnings,
    }
    if submission.replays:
        plan["replays"] = [replayed.model_dump() for replayed in submission.replays]
    estimate = _prompt_chars(submission)
    if estimate is not None:
        plan["prompt_chars_estimate"] = estimate
    return plan


def _prompt_chars(submission: Submission) -> int | None:
    """About how many characters of prompt all samples have together, judged by the preview."""
    lengths = [
        sum(len(str(row.get(column) or "")) for column in ("system_prompt", "user_prompt"))
        for row in submission.dataset.preview or []
        if isinstance(row, dict)
    ]
    if not lengths or not sum(lengths):
        return None
    return round(sum(lengths) / len(lengths) * submission.samples)
