"""A workspace directory in the form that the vendor's command accepts.

That command knows a repository by its origin alone and takes only github.com for a host. So
``origin`` gets the address ``https://github.com/OWNER/REPO``, which is only a name: it is never
meant to be contacted, and may even be a stranger's repository there. Pushes to ``origin`` still
come to the real remote, and branches follow a second remote, so that a plain ``git pull``,
``git fetch`` or ``git push`` does too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmosis.wire.errors import Conflict, OsmosisError
from osmosis.workspace.git import GitResult, run_git
from osmosis.workspace.repository import is_github, origin_url, push_url, without_credentials

REAL_REMOTE = "osmosis"
"""The remote that branches follow meanwhile."""

_DEFAULTS = ("remote.pushDefault", "checkout.defaultRemote")


@dataclass(frozen=True)
class Origin:
    """Where ``origin`` seems to be, and where pushes really go."""

    fetch: str
    push: str

    def resource(self) -> dict[str, Any]:
        return {
            "origin": without_credentials(self.fetch),
            "push_url": without_credentials(self.push),
        }


def take_vendor_form(root: Path, identity: str) -> Origin:
    """Give ``origin`` the github.com name of ``identity``; doing it again changes nothing."""
    fetch, push = _addresses(root)
    if is_github(fetch):
        return Origin(fetch, push)
    known = run_git(root, "remote", "get-url", REAL_REMOTE)
    if known.code == 0 and known.text != push:
        raise Conflict(
            f"There is a remote '{REAL_REMOTE}' already: {without_credentials(known.text)}.",
            hint=f"Rename it first: git remote rename {REAL_REMOTE} NAME",
        )
    if known.code != 0:
        _git(root, "remote", "add", REAL_REMOTE, push)
    named = f"https://github.com/{identity}"
    _git(root, "remote", "set-url", "--push", "origin", push)
    _git(root, "remote", "set-url", "origin", named)
    _move_branches(root, "origin", REAL_REMOTE)
    for key in _DEFAULTS:
        _git(root, "config", "--local", key, REAL_REMOTE)
    return Origin(named, push)


def leave_vendor_form(root: Path) -> Origin:
    """Make ``origin`` the real remote again; doing it again changes nothing."""
    fetch, push = _addresses(root)
    if fetch == push or run_git(root, "remote", "get-url", REAL_REMOTE).text != push:
        return Origin(fetch, push)
    _git(root, "remote", "set-url", "origin", push)
    _git(root, "config", "--local", "--unset-all", "remote.origin.pushurl")
    _move_branches(root, REAL_REMOTE, "origin")
    _git(root, "remote", "remove", REAL_REMOTE)
    for key in _DEFAULTS:
        run_git(root, "config", "--local", "--unset-all", key)
    return Origin(push, push)


def _addresses(root: Path) -> tuple[str, str]:
    fetch, push = origin_url(root), push_url(root)
    if not fetch or not push:
        raise Conflict(
            "The directory has no origin.", hint="Connect it first: osmosis workspace connect"
        )
    return fetch, push


def _move_branches(root: Path, old: str, new: str) -> None:
    """Let the branches that follow ``old`` follow ``new``, and know what was known of it."""
    copied = f"+refs/remotes/{old}/*:refs/remotes/{new}/*"
    _git(root, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", ".", copied)
    for branch in _branches_of(root, old):
        _git(root, "config", "--local", f"branch.{branch}.remote", new)


def _branches_of(root: Path, remote: str) -> Iterator[str]:
    """The local branches that follow a remote, also one that has no commit yet."""
    listed = run_git(root, "config", "--local", "--get-regexp", r"^branch\..*\.remote$")
    for line in listed.text.splitlines():
        key, _, value = line.partition(" ")
        if value == remote:
            yield key.removeprefix("branch.").removesuffix(".remote")


def _git(root: Path, *words: str) -> GitResult:
    done = run_git(root, *words)
    if done.code != 0:
        raise OsmosisError(f"git {words[0]} failed: {done.error}")
    return done
