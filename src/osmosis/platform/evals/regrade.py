"""Grading the stored samples of an ended run again, without running the workflow.

A new generation, as a retry opens one, but nothing is forgotten: each sample keeps its old grade
until its new one is recorded. By default the grader is that of the run's own commit; a branch or a
commit takes another one, and the run says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.models import Repository, Run, Sample
from osmosis.platform.deps import Scope
from osmosis.platform.evals.lifecycle import CLAIMABLE, note, reopen_run, run_topic
from osmosis.platform.evals.provided import seal_provided
from osmosis.platform.evals.reopening import (
    given_secrets,
    refuse_imported,
    require_dataset,
    require_ended,
    secret_scopes,
)
from osmosis.platform.evals.retry_limits import config_with, given_limits, require_budget
from osmosis.platform.evals.service import find_run
from osmosis.platform.gitsync import service as gitsync
from osmosis.platform.platform import Platform
from osmosis.wire.errors import Conflict, NotFound, ValidationFailed
from osmosis.workspace.layout import ROLLOUTS

OUR_SDK = "osmosis-platform"

ALTERNATIVES = (
    "Let the rollout depend on osmosis-platform with a LocalBackend, push, and re-grade with "
    "--branch BRANCH. Or run the samples anew: submit the config again, with model_path = "
    '"replay/{run}" to answer from the calls of this run.'
)


async def regrade_run(platform: Platform, scope: Scope, ref: str, body: Mapping[str, Any]) -> Run:
    """Reopen the run for a new grading; raises when there is nothing to grade, or no way to."""
    given = given_secrets(body)
    changes = given_limits(body)
    branch, commit_sha = _text(body, "branch"), _text(body, "commit_sha")
    if branch and commit_sha:
        raise ValidationFailed("Give a branch or a commit, not both.", field="branch")
    async with platform.db.read() as session:
        run, _ = await find_run(session, scope.workspace.id, ref)
        require_ended(run)
        refuse_imported(run)
        samples = await _stored(session, run)
        await require_dataset(platform, session, run)
        scopes = await secret_scopes(session, run, given)
        config = config_with(run, changes)
        require_budget(run, config, options=_options(branch, commit_sha))
        repository = await session.get(Repository, run.repository_id or "")
    if not samples:
        raise Conflict(
            f"No sample of the run '{run.name}' has a stored conversation; there is nothing to "
            "grade again.",
            hint=f"Run the samples: osmosis eval retry {run.name}",
            platform_code="NOTHING_TO_REGRADE",
        )
    commit = run.commit_sha
    if branch or commit_sha:
        commit, branch = await _other_commit(platform, repository, run, branch, commit_sha)
    else:
        _require_sdk(run)
        branch = run.branch
    sealed = seal_provided(platform.vault, run.id, given)
    who = scope.principal.name or scope.principal.email
    async with platform.db.write() as session:
        run, _ = await find_run(session, scope.workspace.id, ref, lock=True)
        require_ended(run)
        run.secret_scopes = scopes
        run.config = config
        run.provided_cipher = sealed
        before = _before(run)
        reopen_run(run)
        run.resumed_count = None
        run.regrade = {
            "generation": run.generation,
            "commit_sha": commit,
            "branch": branch,
            "samples": samples,
            "before": before,
        }
        grader = "its own grader" if commit == run.commit_sha else f"the grader of {commit[:12]}"
        note(
            session,
            run.id,
            "queued",
            f"{who} had {samples} stored samples of the run graded again (generation "
            f"{run.generation}), by {grader}. The policy is not called.",
        )
    platform.events.publish(CLAIMABLE)
    platform.events.publish(run_topic(run.id))
    return run


def _options(branch: str | None, commit_sha: str | None) -> str:
    """As they were given to ``osmosis eval retry``."""
    grader = f" --branch {branch}" if branch else f" --commit-sha {commit_sha}"
    return " --regrade" + (grader if branch or commit_sha else "")


async def _stored(session: AsyncSession, run: Run) -> int:
    query = select(func.count()).where(
        Sample.run_id == run.id, Sample.record["trajectory_bytes"].as_integer().is_not(None)
    )
    return (await session.execute(query)).scalar_one()


async def _other_commit(
    platform: Platform,
    repository: Repository | None,
    run: Run,
    branch: str | None,
    commit_sha: str | None,
) -> tuple[str, str | None]:
    """The commit that is meant, once the rollout is found there."""
    if repository is None:
        raise NotFound("The repository of the run is not connected any more.")
    found = await gitsync.resolve_commit(platform, repository, branch, commit_sha)
    path = f"{ROLLOUTS}/{run.rollout}/{PurePosixPath(run.entrypoint)}"
    if await gitsync.path_kind_at(platform, repository, found.commit_sha, path) != "blob":
        raise ValidationFailed(
            f"There is no file {path} at commit {found.commit_sha[:12]}.",
            hint="Push a commit that holds the rollout of the run.",
            field="branch" if branch else "commit_sha",
        )
    return found.commit_sha, found.branch


def _require_sdk(run: Run) -> None:
    """The same commit has the same SDK; what it cannot do is known before anything starts."""
    sdk: str | None = run.effective.get("sdk")
    if sdk is None or sdk.partition(" ")[0] == OUR_SDK:
        return
    raise Conflict(
        f"The run '{run.name}' used {sdk}, which cannot grade a stored sample without running the "
        "workflow.",
        hint=ALTERNATIVES.format(run=run.name),
        platform_code="REGRADE_UNSUPPORTED",
        details={"sdk": sdk},
    )


def _before(run: Run) -> dict[str, Any]:
    """How the run had ended; a re-grading that followed another one comes back to the same."""
    if run.regrade and run.regrade.get("before"):
        return run.regrade["before"]
    return {"status": run.status, "stop_reason": run.stop_reason, "error": run.error}


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise ValidationFailed(f"'{name}' must be text.", field=name)
    return value.strip()
