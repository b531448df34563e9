"""Tying a workspace directory to the repository that a platform hosts for it."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from osmosis.wire.errors import Conflict, OsmosisError
from osmosis.workspace.git import run_git
from osmosis.workspace.repository import (
    IDENTITY_KEY,
    hosted_origin,
    hosted_remote,
    origin_url,
    without_credentials,
)

if TYPE_CHECKING:
    from osmosis.client.api import Api

MAX_NAME_CHARS = 64
CLONE_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Link:
    """The workspace on the platform and the address that ``origin`` now has."""

    workspace: str
    identity: str
    git_url: str
    new: bool

    def resource(self) -> dict[str, Any]:
        return {"name": self.workspace, "repository": self.identity, "git_url": self.git_url}


def hosted_link(account: Api, root: Path, name: str | None = None) -> Link:
    """Make the workspace on the platform, set ``origin``, and let git find the credentials."""
    origin = origin_url(root)
    hosted = hosted_origin(root, origin)
    if origin and hosted is None:
        raise Conflict(
            f"The directory has an origin already: {without_credentials(origin)}.",
            hint=f"Let the platform fetch from it: osmosis workspace connect "
            f"{shlex.quote(without_credentials(origin))}",
        )
    wanted = name or (hosted.identity.split("/")[1] if hosted else workspace_name(root))
    known = {str(workspace.get("name")) for workspace in account.workspaces()}
    made = account.create_workspace(wanted)
    identity = (made.get("connected_repo") or {}).get("repo_full_name")
    git_url = made.get("git_url")
    if not identity or not git_url:
        raise OsmosisError(
            f"The platform hosts no repository for the workspace {made.get('name')}.",
            hint="Connect it to its own remote: osmosis workspace connect URL",
        )
    if origin is None or hosted_remote(origin):
        _set_origin(root, str(git_url), exists=origin is not None)
    _let_git_log_in(root, str(git_url))
    run_git(root, "config", "--local", "--unset-all", IDENTITY_KEY)
    name_there = str(made.get("name"))
    return Link(name_there, str(identity), str(git_url), new=name_there not in known)


def clone_hosted(git_url: str, target: Path) -> Path:
    """Clone a repository that the platform hosts, and let git find the credentials in it."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Conflict(f"{target} exists already and is not empty.", hint="Name another directory.")
    logins = [word for key, value in _login_config(git_url) for word in ("-c", f"{key}={value}")]
    words = (*logins, "clone", "--quiet", "--", git_url, str(target.absolute()))
    done = run_git(Path.cwd(), *words, timeout_s=CLONE_TIMEOUT_S)
    if done.code != 0:
        raise OsmosisError(f"git could not clone {git_url}: {done.error}")
    _set_origin(target, git_url, exists=True)
    _let_git_log_in(target, git_url)
    return target.absolute()


def note_identity(root: Path, identity: str) -> None:
    """Remember which repository the platform knows this directory by."""
    run_git(root, "config", "--local", IDENTITY_KEY, identity)


def workspace_name(root: Path) -> str:
    """A name for the platform from the directory's name."""
    name = re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-")[:MAX_NAME_CHARS].strip("-")
    return name or "workspace"


def _set_origin(root: Path, url: str, *, exists: bool) -> None:
    action = ("set-url", "origin", url) if exists else ("add", "origin", url)
    done = run_git(root, "remote", *action)
    if done.code != 0:
        raise OsmosisError(f"git could not set origin: {done.error}")
    # A plain `git push` of a new branch then needs no flag.
    run_git(root, "config", "--local", "push.default", "current")
    run_git(root, "config", "--local", "push.autoSetupRemote", "true")
    branch = run_git(root, "symbolic-ref", "--short", "HEAD").text
    if branch:
        run_git(root, "config", "--local", f"branch.{branch}.remote", "origin")
        run_git(root, "config", "--local", f"branch.{branch}.merge", f"refs/heads/{branch}")


def _let_git_log_in(root: Path, git_url: str) -> None:
    """Have git ask us for the token, for this platform only; no token is written to disk.

    The empty first value switches other helpers off for this address: they would store the token.
    """
    for number, (key, value) in enumerate(_login_config(git_url)):
        run_git(root, "config", "--local", "--add" if number else "--replace-all", key, value)


def _login_config(git_url: str) -> list[tuple[str, str]]:
    parts = urlsplit(git_url)
    key = f"credential.{parts.scheme}://{parts.netloc}.helper"
    command = f"!{' '.join(shlex.quote(word) for word in _own_command())} auth git-credential"
    return [(key, ""), (key, command)]


def _own_command() -> list[str]:
    """How to start this very program from any directory."""
    script = Path(sys.argv[0])
    if script.name == "osmosis" and script.is_file():
        return [str(script.absolute())]
    beside = Path(sys.executable).with_name("osmosis")
    if beside.is_file():
        return [str(beside)]
    found = shutil.which("osmosis")
    return [found] if found else [sys.executable, "-P", "-m", "osmosis.cli.main"]
