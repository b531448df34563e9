"""Whether what a config names is there: the dataset, the commit and its files, the model.

Each check answers with issues under the key of the config, so that all of them can be shown at
once; an unknown name suggests the near one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.datasets.service import dataset_by_ref
from osmosis.platform.db.models import Dataset, Repository
from osmosis.platform.gitsync import service as gitsync
from osmosis.platform.gitsync.service import ResolvedCommit
from osmosis.platform.platform import Platform
from osmosis.wire.errors import Issue, NotFound, OsmosisError, ValidationFailed, near
from osmosis.workspace.config import EvalConfig
from osmosis.workspace.layout import ROLLOUTS

SCRIPTED = "scripted/"
REPLAY = "replay/"


def submission_mistakes(issues: Sequence[Issue]) -> ValidationFailed:
    """One error for all of the issues."""
    count = len(issues)
    return ValidationFailed(
        f"The submitted config has {count} mistake{'s' if count != 1 else ''}.", issues=issues
    )


async def check_dataset(
    session: AsyncSession, workspace_id: str, name: str
) -> tuple[Dataset | None, list[Issue]]:
    """The uploaded dataset of this name, or what is wrong with it."""
    key = "experiment.dataset"
    try:
        dataset = await dataset_by_ref(session, workspace_id, name)
    except NotFound as error:
        return None, [Issue(key=key, message=error.message)]
    if dataset.status != "uploaded":
        return None, [Issue(key=key, message=_unready(dataset))]
    return dataset, []


async def check_code(
    platform: Platform, repository: Repository, config: EvalConfig
) -> tuple[ResolvedCommit | None, list[Issue]]:
    """The one commit that the config means, and whether the rollout is there at it."""
    experiment = config.experiment
    key = "experiment.commit_sha" if experiment.commit_sha else "experiment.branch"
    try:
        commit = await gitsync.resolve_commit(
            platform, repository, experiment.branch, experiment.commit_sha
        )
    except OsmosisError as error:
        if error.http_status not in (400, 404):
            raise
        hint = f" {error.hint}" if error.hint else ""
        return None, [Issue(key=key, message=f"{error.message}{hint}")]
    return commit, await _check_rollout(platform, repository, commit, config)


async def _check_rollout(
    platform: Platform, repository: Repository, commit: ResolvedCommit, config: EvalConfig
) -> list[Issue]:
    rollout, entrypoint = config.experiment.rollout, config.experiment.entrypoint
    path = f"{ROLLOUTS}/{rollout}/{PurePosixPath(entrypoint)}"
    if await gitsync.path_kind_at(platform, repository, commit.commit_sha, path) == "blob":
        return []
    at = f"at commit {commit.commit_sha[:12]}"
    names = await _names(platform, repository, commit, ROLLOUTS, "tree")
    if rollout not in names:
        message = f"there is no {ROLLOUTS}/{rollout}/ {at}; is it pushed?"
        return [_unknown("experiment.rollout", message, rollout, names)]
    files = await _names(platform, repository, commit, f"{ROLLOUTS}/{rollout}", "blob")
    message = f"there is no file {path} {at}; is it pushed?"
    return [_unknown("experiment.entrypoint", message, entrypoint, files)]


async def _names(
    platform: Platform, repository: Repository, commit: ResolvedCommit, path: str, kind: str
) -> list[str]:
    """Names of the directories (``tree``) or files (``blob``) at a path of the commit."""
    entries = await gitsync.list_tree(platform, repository, commit.commit_sha, path)
    return [entry.name for entry in entries if entry.kind == kind]


async def check_model(
    platform: Platform,
    repository: Repository,
    commit: ResolvedCommit | None,
    *,
    key: str,
    name: str,
    endpoints: Sequence[str],
) -> Issue | None:
    """A mistake in a model's name, as far as its form and the workspace tell."""
    if name.startswith(SCRIPTED):
        return await _check_script(platform, repository, commit, key, name)
    if name.startswith(REPLAY):
        return None  # looked up beside the others: see replays.py
    first, slash, rest = name.partition("/")
    if first in endpoints or (slash and first and rest):
        return None
    match = near(name, endpoints)
    message = (
        f"'{name}' names neither a provider nor an endpoint of the workspace; write "
        "provider/model, such as openai/gpt-5-mini, or the name of an endpoint"
    )
    if match:
        message += f"; did you mean '{match}'?"
    elif endpoints:
        message += f" ({', '.join(sorted(endpoints)[:10])})"
    return Issue(key=key, message=message)


async def _check_script(
    platform: Platform, repository: Repository, commit: ResolvedCommit | None, key: str, name: str
) -> Issue | None:
    path = PurePosixPath(name.removeprefix(SCRIPTED))
    if not path.parts or path.is_absolute() or ".." in path.parts:
        return Issue(key=key, message="scripted/FILE names a file inside the workspace")
    if commit is None:
        return None
    kind = await gitsync.path_kind_at(platform, repository, commit.commit_sha, str(path))
    if kind == "blob":
        return None
    folder = "" if str(path.parent) == "." else str(path.parent)
    files = await _names(platform, repository, commit, folder, "blob")
    known = [f"{SCRIPTED}{PurePosixPath(folder) / file}" for file in files]
    message = f"there is no file {path} at commit {commit.commit_sha[:12]}; is it pushed?"
    return _unknown(key, message, name, known)


def _unknown(key: str, message: str, name: str, known: Sequence[str]) -> Issue:
    match = near(name, known)
    if match:
        message += f" Did you mean '{match}'?"
    elif known:
        message += f" Known: {', '.join(sorted(known)[:10])}."
    return Issue(key=key, message=message)


def _unready(dataset: Dataset) -> str:
    if dataset.status == "error":
        return (
            f"the dataset '{dataset.name}' did not pass validation; "
            f"`osmosis dataset logs {dataset.name}` says why"
        )
    if dataset.status in ("uploading", "processing", "pending"):
        return f"the dataset '{dataset.name}' is still {dataset.status}; try again in a moment"
    return f"the dataset '{dataset.name}' is {dataset.status}; upload it again"
