"""From a submitted body to a run: every check, then one row.

Mistakes in the config come first, all at once. Then everything that the config refers to is looked
up (dataset, branch or commit, rollout, entrypoint, model, secrets), again all at once. Nothing is
stored before all of it holds, and the branch is resolved to one commit here, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.dataset.selection import Selection, format_ranges
from osmosis.dataset.selection import select as select_rows
from osmosis.platform.db.base import new_id
from osmosis.platform.db.models import Dataset, Endpoint, Repository, Run
from osmosis.platform.deps import Scope
from osmosis.platform.evals.lifecycle import CLAIMABLE, note
from osmosis.platform.evals.names import new_run_name
from osmosis.platform.evals.provided import PROVIDED_SCOPE, seal_provided
from osmosis.platform.evals.references import (
    REPLAY,
    check_code,
    check_dataset,
    check_model,
    submission_mistakes,
)
from osmosis.platform.evals.replays import check_replays
from osmosis.platform.gitsync.service import ResolvedCommit, repository_of
from osmosis.platform.models.service import all_endpoints
from osmosis.platform.platform import Platform
from osmosis.platform.secrets.service import resolve_secrets, secrets_not_found
from osmosis.wire.errors import Issue, ValidationFailed
from osmosis.wire.runner import ReplayedRun
from osmosis.workspace.config import EvalConfig, config_from_submission, provided_secrets

MANY_SAMPLES = 20


@dataclass(frozen=True)
class Submission:
    """A config that can run, with everything it refers to."""

    config: EvalConfig
    provided: Mapping[str, str]
    dataset: Dataset
    repository: Repository
    commit: ResolvedCommit
    selection: Selection
    secret_scopes: dict[str, str]
    replays: list[ReplayedRun]
    warnings: list[str]

    @property
    def total_rows(self) -> int:
        return self.dataset.row_count or 0

    @property
    def samples(self) -> int:
        return len(self.selection.source_rows) * self.config.evaluation.n


async def check_submission(platform: Platform, scope: Scope, body: Mapping[str, Any]) -> Submission:
    """Check a submitted body against the workspace; raises with every mistake at once."""
    config, provided = _config(body)
    async with platform.db.read() as session:
        dataset, dataset_issues = await check_dataset(
            session, scope.workspace.id, config.experiment.dataset
        )
        endpoints = await all_endpoints(session, scope.workspace.id)
        scopes, missing = await _secret_scopes(session, scope, config, provided)
        key_issues = await _endpoint_keys(session, scope, config, provided, endpoints)
        repository = await repository_of(session, scope.workspace.id)
        replays, replay_issues = await check_replays(
            session, scope.workspace.id, _model_names(config)
        )
    issues = list(dataset_issues)
    commit, code_issues = await check_code(platform, repository, config)
    issues += code_issues
    issues += await _models(platform, repository, commit, config, endpoints)
    issues += [*replay_issues, *key_issues]
    if missing and issues:
        text = f"not found: {', '.join(missing)}"
        issues.append(Issue(key="secrets.required", message=text))
    if issues or dataset is None or commit is None:
        raise submission_mistakes(issues)
    if missing:
        raise secrets_not_found(missing)
    evaluation = config.evaluation
    # A tenth of a million rows takes a fifth of a second to draw.
    selection = await asyncio.to_thread(
        select_rows, dataset.row_count or 0, evaluation.limit, config.advanced.sample_seed
    )
    return Submission(
        config=config,
        provided=provided,
        dataset=dataset,
        repository=repository,
        commit=commit,
        selection=selection,
        secret_scopes=scopes,
        replays=replays,
        warnings=_warnings(config, dataset, selection),
    )


async def create_run(platform: Platform, scope: Scope, submission: Submission) -> Run:
    """Store the run; it may be claimed the moment this returns."""
    config, evaluation = submission.config, submission.config.evaluation
    run = Run(
        id=new_id(),
        workspace_id=scope.workspace.id,
        rollout=config.experiment.rollout,
        entrypoint=config.experiment.entrypoint,
        model_path=config.experiment.model_path,
        branch=submission.commit.branch,
        commit_sha=submission.commit.commit_sha,
        repository_id=submission.repository.id,
        dataset_id=submission.dataset.id,
        dataset_name=submission.dataset.name,
        dataset_sha256=submission.dataset.sha256 or "",
        config=stored_config(config, submission.replays),
        env=dict(config.env),
        secret_scopes=submission.secret_scopes,
        selection={
            "kind": submission.selection.kind,
            "seed": submission.selection.seed,
            "rows": await asyncio.to_thread(format_ranges, submission.selection.source_rows),
        },
        selected_rows=len(submission.selection.source_rows),
        total_rows=submission.total_rows,
        n=evaluation.n,
        pass_threshold=evaluation.pass_threshold,
        creator_id=scope.principal.user_id,
    )
    run.provided_cipher = seal_provided(platform.vault, run.id, submission.provided)
    async with platform.db.write() as session:
        # The name is drawn under the writer's lock, so two submits never draw the same one.
        names = select(Run.name).where(Run.workspace_id == scope.workspace.id)
        run.name = new_run_name(set((await session.execute(names)).scalars()))
        session.add(run)
        await session.flush()
        note(session, run.id, "queued", _queued_text(scope, submission))
        for warning in submission.warnings:
            note(session, run.id, "queued", warning, level="warning")
    platform.events.publish(CLAIMABLE)
    return run


def stored_config(config: EvalConfig, replays: Sequence[ReplayedRun] = ()) -> dict[str, Any]:
    """The config as the run keeps it: effective evaluation settings, advanced as far as set."""
    named = {"replays": [replayed.model_dump() for replayed in replays]} if replays else {}
    return {
        **named,
        "evaluation": config.evaluation.model_dump(mode="json"),
        "advanced": config.advanced.model_dump(mode="json", exclude_unset=True),
        "secrets": list(config.secrets.required),
    }


def _config(body: Mapping[str, Any]) -> tuple[EvalConfig, dict[str, str]]:
    """The config and the provided secrets; the mistakes of both together."""
    issues: list[Issue] = []
    try:
        provided = provided_secrets(body)
    except ValidationFailed as failed:
        issues, provided = failed.issues, {}
    try:
        config = config_from_submission(body)
    except ValidationFailed as failed:
        raise submission_mistakes([*failed.issues, *issues]) from None
    if issues:
        raise submission_mistakes(issues)
    return config, provided


async def _secret_scopes(
    session: AsyncSession, scope: Scope, config: EvalConfig, provided: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Where each required secret comes from, and the names that come from nowhere."""
    required = config.secrets.required
    stored = await resolve_secrets(session, scope.workspace.id, scope.principal.user_id, required)
    scopes: dict[str, str] = {}
    missing: list[str] = []
    for name in required:
        if name in provided:
            scopes[name] = PROVIDED_SCOPE
        elif name in stored:
            scopes[name] = stored[name].scope
        else:
            missing.append(name)
    return scopes, missing


async def _endpoint_keys(
    session: AsyncSession,
    scope: Scope,
    config: EvalConfig,
    provided: Mapping[str, str],
    endpoints: Sequence[Endpoint],
) -> list[Issue]:
    """Endpoints of this run whose key is named but stored nowhere."""
    by_name = {endpoint.name: endpoint for endpoint in endpoints}
    found: list[Issue] = []
    for key, name in _model_names(config).items():
        endpoint = by_name.get(name.partition("/")[0])
        secret = endpoint.api_key_secret if endpoint else None
        if secret is None or secret in provided:
            continue
        user_id = scope.principal.user_id
        if not await resolve_secrets(session, scope.workspace.id, user_id, [secret]):
            message = (
                f"the endpoint '{name.partition('/')[0]}' takes its key from the secret {secret}, "
                f"which is not stored; store it with `osmosis secret set {secret}`"
            )
            found.append(Issue(key=key, message=message))
    return found


def _model_names(config: EvalConfig) -> dict[str, str]:
    """The models of a config by the key that names them."""
    names = {"experiment.model_path": config.experiment.model_path}
    if config.advanced.judge_model:
        names["advanced.judge_model"] = config.advanced.judge_model
    return names


async def _models(
    platform: Platform,
    repository: Repository,
    commit: ResolvedCommit | None,
    config: EvalConfig,
    endpoints: Sequence[Endpoint],
) -> list[Issue]:
    """Mistakes in the names of the policy and the judge."""
    known = [endpoint.name for endpoint in endpoints]
    found: list[Issue] = []
    for key, name in _model_names(config).items():
        issue = await check_model(platform, repository, commit, key=key, name=name, endpoints=known)
        if issue is not None:
            found.append(issue)
    return found


def _warnings(config: EvalConfig, dataset: Dataset, selection: Selection) -> list[str]:
    evaluation = config.evaluation
    samples = len(selection.source_rows) * evaluation.n
    warnings: list[str] = []
    if evaluation.batch_size == 1 and samples >= MANY_SAMPLES:
        warnings.append(
            f"batch_size = 1 runs the {samples} samples one after the other. Set "
            "[evaluation] batch_size = 16 or so to run them side by side."
        )
    if evaluation.limit is not None and evaluation.limit > (dataset.row_count or 0):
        warnings.append(
            f"limit = {evaluation.limit}, but the dataset has {dataset.row_count} rows: all of "
            "them run."
        )
    if config.experiment.model_path.startswith("scripted/"):
        warnings.append(
            "The model is scripted: its answers come from a file of rules, not from a model."
        )
    if config.experiment.model_path.startswith(REPLAY):
        warnings.append("The model is a replay: its answers are those of an earlier run.")
    return warnings


def _queued_text(scope: Scope, submission: Submission) -> str:
    rows, n = len(submission.selection.source_rows), submission.config.evaluation.n
    seed = submission.selection.seed
    chosen = f"drawn at random with seed {seed}" if seed is not None else "the first ones"
    who = scope.principal.name or scope.principal.email
    return (
        f"{who} submitted the run: {rows} of {submission.total_rows} rows of "
        f"'{submission.dataset.name}' ({chosen}) × {n} = {submission.samples} samples, commit "
        f"{submission.commit.commit_sha[:12]}."
    )
