"""The repository of a workspace: connecting it, fetching it, resolving what a run needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.models import Repository
from osmosis.platform.gitsync import reading
from osmosis.platform.gitsync.advertised import advertised
from osmosis.platform.gitsync.bare import ensure_bare, repo_path, repository_lock
from osmosis.platform.gitsync.catalog import Catalogued, catalogue, catalogue_locked
from osmosis.platform.gitsync.commits import (
    ResolvedCommit,
    heads,
    resolve_branch,
    resolve_sha,
    unknown_commit,
)
from osmosis.platform.gitsync.credentials import access_to, access_with, credential_context
from osmosis.platform.gitsync.git import GitFailed, git
from osmosis.platform.gitsync.reading import Kind, TreeEntry
from osmosis.platform.gitsync.remotes import (
    Remote,
    check_credential,
    derived_identity,
    parse_remote,
    remote_failure,
)
from osmosis.platform.platform import Platform
from osmosis.wire.errors import Conflict, NotFound, OsmosisError, ValidationFailed
from osmosis.workspace.repository import identity_of

FULL_SHA_CHARACTERS = 40

__all__ = [
    "Catalogued",
    "ResolvedCommit",
    "archive",
    "catalogue",
    "connect_hosted",
    "connect_remote",
    "ensure_hosted",
    "list_tree",
    "path_exists_at",
    "path_kind_at",
    "read_file_at",
    "repo_path",
    "repository_of",
    "resolve_commit",
    "sync",
]


async def repository_of(session: AsyncSession, workspace_id: str) -> Repository:
    """The repository that a workspace is connected to."""
    query = select(Repository).where(Repository.workspace_id == workspace_id)
    repository = (await session.execute(query)).scalar_one_or_none()
    if repository is None:
        raise NotFound(
            "The workspace is not connected to a repository.",
            hint="Run `osmosis workspace connect`.",
            platform_code="GIT_REPOSITORY_NOT_CONNECTED",
        )
    return repository


async def ensure_hosted(platform: Platform, repository: Repository) -> Path:
    """The bare copy of a repository, made when it is not there."""
    return await ensure_bare(platform.settings, repository)


# ---------------------------------------------------------------------- connecting and fetching


async def connect_remote(
    platform: Platform,
    workspace_id: str,
    url: str,
    *,
    token: str | None = None,
    deploy_key: str | None = None,
) -> Repository:
    """Connect a workspace to a remote repository, after reading it once, and fetch it."""
    remote = parse_remote(url, allow_file=platform.settings.git_allow_file)
    check_credential(remote, token=token, deploy_key=deploy_key)
    kind = "token" if token is not None else "deploy_key" if deploy_key is not None else None
    credential = token if token is not None else deploy_key
    access = partial(access_with, platform.settings, remote, kind, credential)
    await advertised(platform.settings, remote, access)
    async with platform.db.write() as session:
        repository = await repository_of(session, workspace_id)
        repository.identity = await _identity(session, repository, remote)
        repository.kind = "remote"
        repository.url = remote.url
        repository.credential_kind = kind
        repository.credential_cipher = (
            platform.vault.encrypt(credential.encode(), credential_context(repository.id))
            if credential is not None
            else None
        )
    await sync(platform, repository)
    async with platform.db.read() as session:
        return await session.get_one(Repository, repository.id)


async def connect_hosted(platform: Platform, workspace_id: str) -> Repository:
    """Connect a workspace back to the repository that this server hosts."""
    async with platform.db.write() as session:
        repository = await repository_of(session, workspace_id)
        repository.kind = "hosted"
        repository.url = repository.credential_kind = repository.credential_cipher = None
        repository.last_error = None
    await ensure_hosted(platform, repository)
    return repository


async def sync(platform: Platform, repository: Repository) -> Catalogued:
    """Fetch a remote repository (a hosted one is already here) and catalogue it."""
    await ensure_bare(platform.settings, repository)
    if repository.kind != "remote":
        return await catalogue(platform, repository.id)
    async with repository_lock(repository.id):
        return await _fetch_locked(platform, repository)


async def _fetch_locked(platform: Platform, repository: Repository) -> Catalogued:
    settings = platform.settings
    remote = parse_remote(repository.url or "", allow_file=settings.git_allow_file)
    try:
        access = partial(access_to, settings, platform.vault, repository, remote)
        offered = await advertised(settings, remote, access)
        local = {head.name: head.commit_sha for head in await heads(settings, repository)}
        if local != offered.branches:
            refs = "+refs/heads/*:refs/heads/*"
            await _fetch(platform, repository, remote, "--prune", remote.url, refs)
    except OsmosisError as error:
        async with platform.db.write() as session:
            stored = await session.get_one(Repository, repository.id)
            stored.last_error = error.message
        raise
    return await catalogue_locked(platform, repository.id, default_branch=offered.default_branch)


async def _fetch(
    platform: Platform, repository: Repository, remote: Remote, *arguments: str
) -> None:
    settings = platform.settings
    try:
        with access_to(settings, platform.vault, repository, remote) as access:
            await git(
                settings,
                repo_path(settings, repository),
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-recurse-submodules",
                "--no-write-fetch-head",
                "--force",
                *arguments,
                timeout_s=settings.git_fetch_timeout_s,
                access=access,
            )
    except GitFailed as error:
        raise remote_failure(remote, error) from None


async def _identity(session: AsyncSession, repository: Repository, remote: Remote) -> str:
    """github.com names itself; any other remote keeps the name that the workspace has."""
    try:
        wanted = identity_of(remote.url)
    except ValidationFailed:
        wanted = repository.identity or derived_identity(remote)
    query = select(Repository.id).where(
        Repository.identity == wanted, Repository.id != repository.id
    )
    if (await session.execute(query)).first() is not None:
        raise Conflict(
            f"The repository '{wanted}' is connected to another workspace.",
            hint="A repository belongs to one workspace; use that one, or connect another.",
            platform_code="REPOSITORY_TAKEN",
            field="url",
        )
    return wanted


# ---------------------------------------------------------------------- what a run needs


async def resolve_commit(
    platform: Platform, repository: Repository, branch: str | None, commit_sha: str | None
) -> ResolvedCommit:
    """The one commit that a run means; a remote repository is fetched first.

    A full commit id that is here already needs no fetch. What is not there raises
    :class:`ValidationFailed` with the reason and the near names.
    """
    settings = platform.settings
    if commit_sha is not None:
        found = await resolve_sha(settings, repository, commit_sha)
        if found is None and repository.kind == "remote":
            await sync(platform, repository)
            found = await resolve_sha(settings, repository, commit_sha)
            if found is None and len(commit_sha) == FULL_SHA_CHARACTERS:
                found = await _fetch_single(platform, repository, commit_sha)
        if found is None:
            raise await unknown_commit(settings, repository, commit_sha)
        return ResolvedCommit(branch, found.commit_sha)
    if repository.kind == "remote":
        await sync(platform, repository)
        async with platform.db.read() as session:
            repository = await session.get_one(Repository, repository.id)
    return await resolve_branch(settings, repository, branch)


async def _fetch_single(
    platform: Platform, repository: Repository, commit_sha: str
) -> ResolvedCommit | None:
    """Ask the remote for a commit that no branch holds; many hosts give it."""
    settings = platform.settings
    remote = parse_remote(repository.url or "", allow_file=settings.git_allow_file)
    async with repository_lock(repository.id):
        try:
            await _fetch(platform, repository, remote, remote.url, commit_sha.lower())
        except OsmosisError:
            return None
    return await resolve_sha(settings, repository, commit_sha)


async def path_exists_at(
    platform: Platform, repository: Repository, commit_sha: str, path: str
) -> bool:
    """Whether the commit has a file or directory at the path."""
    return await path_kind_at(platform, repository, commit_sha, path) is not None


async def path_kind_at(
    platform: Platform, repository: Repository, commit_sha: str, path: str
) -> Kind | None:
    """``tree``, ``blob`` or None for a path of the commit."""
    return await reading.path_kind_at(platform.settings, repository, commit_sha, path)


async def list_tree(
    platform: Platform, repository: Repository, commit_sha: str, path: str = ""
) -> list[TreeEntry]:
    """The entries of a directory of the commit; empty when it is not there."""
    return await reading.list_tree(platform.settings, repository, commit_sha, path)


async def read_file_at(
    platform: Platform, repository: Repository, commit_sha: str, path: str
) -> bytes | None:
    """A small file's bytes at the commit, or None."""
    return await reading.read_file_at(platform.settings, repository, commit_sha, path)


def archive(platform: Platform, repository: Repository, commit_sha: str) -> AsyncIterator[bytes]:
    """The commit's tree as a tar stream."""
    return reading.archive(platform.settings, repository, commit_sha)
