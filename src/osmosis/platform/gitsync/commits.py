"""From what a config names (a branch, a commit, or nothing) to one full commit id, once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmosis.platform.db.models import Repository
from osmosis.platform.gitsync.bare import repo_path
from osmosis.platform.gitsync.git import GitFailed, git
from osmosis.platform.gitsync.reading import object_infos
from osmosis.platform.settings import Settings
from osmosis.wire.errors import ValidationFailed, did_you_mean

COMMIT = re.compile(r"[0-9a-fA-F]{7,40}")
SHOWN_BRANCHES = 10
SHOWN_COMMITS = 5


@dataclass(frozen=True)
class ResolvedCommit:
    """One commit of the repository; ``branch`` is the one it was taken from, if any."""

    branch: str | None
    commit_sha: str


@dataclass(frozen=True)
class Head:
    """A branch and the commit it points to."""

    name: str
    commit_sha: str


async def heads(settings: Settings, repository: Repository, *, limit: int = 0) -> list[Head]:
    """The branches of the bare copy, the newest commit first."""
    path = repo_path(settings, repository)
    if not path.is_dir():
        return []
    output = await git(
        settings,
        path,
        "for-each-ref",
        "--sort=-committerdate",
        "--format=%(objectname) %(refname:lstrip=2)",
        *([f"--count={limit}"] if limit else []),
        "refs/heads",
    )
    found: list[Head] = []
    for line in output.splitlines():
        commit_sha, _, name = line.partition(b" ")
        try:
            found.append(Head(name.decode(), commit_sha.decode()))
        except UnicodeDecodeError:
            continue
    return found


async def resolve_branch(
    settings: Settings, repository: Repository, branch: str | None
) -> ResolvedCommit:
    """The commit of a branch, by default the repository's default branch."""
    known = await heads(settings, repository)
    if not known:
        raise _empty(repository)
    wanted = branch or repository.default_branch
    for head in known:
        if head.name == wanted:
            return ResolvedCommit(wanted, head.commit_sha)
    names = [head.name for head in known]
    shown = ", ".join(names[:SHOWN_BRANCHES])
    more = f" and {len(names) - SHOWN_BRANCHES} more" if len(names) > SHOWN_BRANCHES else ""
    what = f"no branch '{wanted}'" if branch else f"no default branch '{wanted}'"
    raise ValidationFailed(
        f"The repository '{repository.identity}' has {what}.{did_you_mean(wanted, names)} "
        f"It has: {shown}{more}.",
        hint="Was it pushed? `git push origin HEAD` pushes the branch you are on.",
        field="experiment_config.branch",
        platform_code="BRANCH_NOT_FOUND",
    )


async def resolve_sha(
    settings: Settings, repository: Repository, commit_sha: str
) -> ResolvedCommit | None:
    """The commit that the (perhaps short) id names; None when the copy has none."""
    if not COMMIT.fullmatch(commit_sha):
        raise ValidationFailed(
            f"'{commit_sha[:60]}' is no commit id.",
            hint="Write 7 to 40 hexadecimal characters, as `git rev-parse HEAD` prints them.",
            field="experiment_config.commit_sha",
            platform_code="COMMIT_INVALID",
        )
    path = repo_path(settings, repository)
    if not path.is_dir():
        return None
    try:
        listed = await git(settings, path, "rev-parse", f"--disambiguate={commit_sha.lower()}")
    except GitFailed:
        return None
    infos = await object_infos(settings, repository, listed.decode().split())
    commits = [info.object_id for info in infos if info and info.kind == "commit"]
    if len(commits) > 1:
        shown = ", ".join(sha[:16] for sha in commits[:SHOWN_COMMITS])
        raise ValidationFailed(
            f"'{commit_sha}' could be any of {len(commits)} commits: {shown}.",
            hint="Write more characters of the commit id.",
            field="experiment_config.commit_sha",
            platform_code="COMMIT_AMBIGUOUS",
        )
    return ResolvedCommit(None, commits[0]) if commits else None


async def unknown_commit(
    settings: Settings, repository: Repository, commit_sha: str
) -> ValidationFailed:
    """The error for a commit that is not there: nothing pushed yet, or this one not."""
    if not await heads(settings, repository, limit=1):
        return _empty(repository)
    hosted = repository.kind == "hosted"
    return ValidationFailed(
        f"The repository '{repository.identity}' has no commit {commit_sha}.",
        hint="Was it pushed? `git push origin HEAD` sends the branch you are on."
        if hosted
        else f"Was it pushed to {repository.url}?",
        field="experiment_config.commit_sha",
        platform_code="COMMIT_NOT_FOUND",
    )


def _empty(repository: Repository) -> ValidationFailed:
    hosted = repository.kind == "hosted"
    return ValidationFailed(
        f"Nothing has been pushed to the repository '{repository.identity}' yet.",
        hint="Commit your workspace and run `git push -u origin HEAD`."
        if hosted
        else f"Push your workspace to {repository.url}.",
        platform_code="REPOSITORY_EMPTY",
    )
