"""``osmosis train submit``: local checks, secrets, a question, the call."""

from __future__ import annotations

from osmosis.cli.evals.preparation import git_warnings
from osmosis.cli.evals.secret_values import resolve
from osmosis.cli.output import NextStep, Operation
from osmosis.cli.output.messages import warn
from osmosis.cli.output.questions import confirm
from osmosis.cli.session import session
from osmosis.wire.errors import ValidationFailed
from osmosis.workspace.checks import path_issues
from osmosis.workspace.layout import TRAINING_CONFIGS, config_path, shown_path
from osmosis.workspace.repository import repository_state
from osmosis.workspace.training_config import load_training_config


def submit(given: str, *, yes: bool, secrets_file: str | None) -> Operation:
    """Start a training run of the pushed code, with the config as it is on disk."""
    root = session.root
    path = config_path(root, given, folder=TRAINING_CONFIGS)
    shown = shown_path(root, path)
    config, body = load_training_config(path, shown=shown)
    if issues := path_issues(root, config):
        raise ValidationFailed(f"{shown} names what is not there.", issues=issues)
    secrets = resolve(session.api, config.secrets.required, secrets_file)
    if secrets.provided:
        body["secrets"]["provided"] = secrets.provided
    warnings = git_warnings(repository_state(root, besides=shown), config)
    for warning in warnings:
        warn("SUBMIT", warning)
    experiment = config.experiment
    summary = {
        "Rollout": experiment.rollout,
        "Model": experiment.model_path,
        "Dataset": experiment.dataset,
    }
    confirm("Start this training run?", yes=yes, default=True, warnings=warnings, summary=summary)
    started = session.api.submit_training(body)
    url = started.get("platform_url")
    return Operation(
        operation="train.submit",
        message=f"The training run {started['name']} is submitted.",
        resource={
            "id": started["id"],
            "name": started["name"],
            "status": started["status"],
            "model_name": experiment.model_path,
            "dataset_name": experiment.dataset,
            "created_at": started["created_at"],
            **({"url": url} if url else {}),
            "config": {
                "rollout": experiment.rollout,
                "entrypoint": experiment.entrypoint,
                "model": experiment.model_path,
                "dataset": experiment.dataset,
                "branch": experiment.branch,
                "commit_sha": experiment.commit_sha,
            },
            **session.context,
        },
        next_steps=[
            NextStep("Look at it:", f"osmosis train info {started['name']}"),
            *([NextStep("View:", str(url))] if url else []),
        ],
    )
