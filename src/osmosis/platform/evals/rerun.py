"""The same rows, seeds and settings once more, on another commit or another model.

A rerun is a submit whose body is taken from the run. The rows are the same because a selection
depends on the number of rows, the limit and the seed alone, and the seed of the run is named; that
the dataset has the same bytes is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from osmosis.platform.db.models import Run
from osmosis.platform.deps import Scope
from osmosis.platform.evals.lifecycle import note
from osmosis.platform.evals.provided import PROVIDED_SCOPE
from osmosis.platform.evals.reopening import values_needed
from osmosis.platform.evals.service import find_run
from osmosis.platform.evals.submission import Submission, check_submission, create_run
from osmosis.platform.platform import Platform
from osmosis.wire.errors import Conflict, ValidationFailed


class RerunRequest(BaseModel):
    """What differs from the run. ``secrets``: values for the new run only."""

    model_config = ConfigDict(extra="forbid")

    commit_sha: str | None = None
    branch: str | None = None
    model: str | None = Field(default=None, min_length=1)
    secrets: dict[str, str] = Field(default_factory=dict[str, str])

    @model_validator(mode="after")
    def _one_of_both(self) -> RerunRequest:
        if self.commit_sha and self.branch:
            raise ValueError("commit_sha and branch exclude each other")
        return self


async def rerun(
    platform: Platform, scope: Scope, ref: str, request: RerunRequest
) -> tuple[Run, Run, list[str]]:
    """Submit the run again with these changes: the run, the new one, and warnings."""
    async with platform.db.read() as session:
        run, _ = await find_run(session, scope.workspace.id, ref)
    if run.effective.get("import") is not None:
        raise ValidationFailed(
            f"The run '{run.name}' was evaluated on another machine and imported; its code is not "
            "here.",
            hint="Submit its config instead: osmosis eval submit CONFIG.",
            platform_code="LOCAL_RUN",
        )
    erased = [name for name, where in run.secret_scopes.items() if where == PROVIDED_SCOPE]
    if missing := [name for name in erased if name not in request.secrets]:
        raise values_needed(missing)
    submission = await check_submission(platform, scope, _body(run, request))
    _require_same_rows(run, submission)
    made = await create_run(platform, scope, submission)
    async with platform.db.write() as session:
        text = f"It repeats the rows, seeds and settings of the run {run.name}."
        note(session, made.id, "queued", text)
    return run, made, submission.warnings


def _body(run: Run, request: RerunRequest) -> dict[str, Any]:
    """The body of a submit that gives the run again, but for what is asked to differ."""
    experiment: dict[str, Any] = {
        "rollout": run.rollout,
        "entrypoint": run.entrypoint,
        "model_path": request.model or run.model_path,
        "dataset": run.dataset_name,
    }
    if request.branch:
        experiment["branch"] = request.branch
    else:
        experiment["commit_sha"] = request.commit_sha or run.commit_sha
    evaluation: Mapping[str, Any] = run.config.get("evaluation", {})
    advanced: dict[str, Any] = {**run.config.get("advanced", {})}
    if run.selection.get("kind") == "sample":
        advanced["sample_seed"] = run.selection["seed"]
    body: dict[str, Any] = {
        "experiment_config": experiment,
        "evaluation_config": {key: val for key, val in evaluation.items() if val is not None},
        "advanced_config": advanced,
    }
    if run.env:
        body["env_config"] = dict(run.env)
    if required := run.config.get("secrets"):
        body["secrets"] = {"required": required, "provided": request.secrets}
    elif request.secrets:
        raise ValidationFailed("The run takes no secrets.", field="secrets")
    return body


def _require_same_rows(run: Run, submission: Submission) -> None:
    dataset = submission.dataset
    if dataset.id != run.dataset_id and dataset.sha256 != run.dataset_sha256:
        raise Conflict(
            f"The dataset '{run.dataset_name}' was replaced since the run '{run.name}', so the "
            "same rows are no longer here.",
            hint="Submit the config again to evaluate the new ones.",
            platform_code="DATASET_CHANGED",
        )
