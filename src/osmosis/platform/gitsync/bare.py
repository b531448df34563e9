"""The bare copy of a repository on the server's disk, and the lock around its changes."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from pathlib import Path
from weakref import WeakValueDictionary

from osmosis.platform.db.models import Repository
from osmosis.platform.gitsync.git import git
from osmosis.platform.settings import Settings

ATTRIBUTES = "* -export-ignore -export-subst\n"
"""A run gets its commit whole: a repository's own export rules do not apply here."""

_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


def repo_path(settings: Settings, repository: Repository) -> Path:
    return settings.git_dir / f"{repository.id}.git"


def repository_lock(repository_id: str) -> asyncio.Lock:
    """One fetch or catalogue of a repository at a time in this process."""
    lock = _locks.get(repository_id)
    if lock is None:
        lock = _locks[repository_id] = asyncio.Lock()
    return lock


async def ensure_bare(settings: Settings, repository: Repository) -> Path:
    """The bare repository's path; it is made, complete or not at all, when it is not there."""
    path = repo_path(settings, repository)
    if path.is_dir():
        return path
    temporary = settings.git_dir / f".new-{secrets.token_hex(8)}"
    try:
        await git(
            settings,
            None,
            "init",
            "--quiet",
            "--bare",
            "--template=",
            f"--initial-branch={repository.default_branch}",
            str(temporary),
        )
        (temporary / "info").mkdir(exist_ok=True)
        (temporary / "info" / "attributes").write_text(ATTRIBUTES)
        temporary.rename(path)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        await asyncio.to_thread(shutil.rmtree, temporary, ignore_errors=True)
    return path


async def remove_bare(settings: Settings, repository: Repository) -> None:
    """Remove the copy for good."""
    await asyncio.to_thread(shutil.rmtree, repo_path(settings, repository), ignore_errors=True)
