"""What a remote repository says of itself, and whether it is one at all."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from osmosis.platform.gitsync.git import Access, GitFailed, git
from osmosis.platform.gitsync.remotes import Remote, no_repository, remote_failure
from osmosis.platform.settings import Settings


@dataclass(frozen=True)
class Advertised:
    """The branches of a remote, name to commit, and its default branch."""

    branches: dict[str, str]
    default_branch: str | None


OpenAccess = Callable[[], AbstractContextManager[Access]]
"""Gives a git process the credential of a remote. It is good for one process."""


async def advertised(settings: Settings, remote: Remote, open_access: OpenAccess) -> Advertised:
    """Ask a remote for its branches.

    Raises :class:`RemoteFailed` when it cannot be read, or is something else than a repository.
    """
    try:
        with open_access() as access:
            output = await _list(settings, remote, access)
        if not output and remote.protocol in ("http", "https"):
            await _require_git(settings, remote, open_access)
    except GitFailed as error:
        raise remote_failure(remote, error) from None
    branches: dict[str, str] = {}
    default = None
    for line in output.decode(errors="replace").splitlines():
        value, _, name = line.partition("\t")
        if name == "HEAD" and value.startswith("ref: refs/heads/"):
            default = value.removeprefix("ref: refs/heads/")
        elif name.startswith("refs/heads/"):
            branches[name.removeprefix("refs/heads/")] = value
    return Advertised(branches, default)


async def _require_git(settings: Settings, remote: Remote, open_access: OpenAccess) -> None:
    """Tell an empty repository from a web page.

    git reads any page as the list of a repository without branches, in the old protocol that a
    plain file server speaks. Only a git server exchanges packets, which a trace shows.
    """
    with tempfile.TemporaryDirectory() as directory, open_access() as access:
        trace = Path(directory) / "packets"
        traced = {**access.environment, "GIT_TRACE_PACKET": str(trace)}
        await _list(settings, remote, Access(traced, access.descriptors))
        if not trace.exists():
            raise no_repository(remote)


async def _list(settings: Settings, remote: Remote, access: Access) -> bytes:
    words = ("ls-remote", "--symref", "--", remote.url, "HEAD", "refs/heads/*")
    return await git(settings, None, *words, timeout_s=settings.git_fetch_timeout_s, access=access)
