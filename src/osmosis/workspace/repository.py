"""The git side of a workspace: which repository it is, and what has not been pushed yet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from osmosis.wire.errors import ValidationFailed
from osmosis.workspace.git import run_git

_SCP = re.compile(r"^[^@/\s:]+@(?P<host>[^:/\s]+):(?P<path>.+)$")
_OWNER = re.compile(r"^[A-Za-z0-9][A-Za-z0-9-]*$")
_REPOSITORY = re.compile(r"^[A-Za-z0-9._-]+$")
_FORBIDDEN = re.compile(r"[\s\x00-\x1f\x7f\\]|%2f|%5c", re.IGNORECASE)

HOSTED_SEGMENT = "git"
IDENTITY_KEY = "osmosis.identity"


@dataclass(frozen=True)
class HostedRemote:
    """A repository that a platform of ours hosts: ``<base_url>/git/<owner>/<repo>.git``."""

    base_url: str
    identity: str


@dataclass(frozen=True)
class RepositoryState:
    """What git knows of a work tree. ``ahead`` is None without an upstream."""

    branch: str | None
    head: str | None
    changed_files: int
    upstream: str | None
    ahead: int | None

    @property
    def dirty(self) -> bool:
        return self.changed_files > 0

    @property
    def unpushed(self) -> bool:
        return self.head is not None and (self.ahead is None or self.ahead > 0)


def identity_of(remote_url: str) -> str:
    """``owner/repo`` in lower case, of a github.com remote or one that a platform hosts."""
    url = remote_url.strip()
    hosted = hosted_remote(url)
    if hosted:
        return hosted.identity
    identity = _github_identity(url)
    if identity is None:
        raise ValidationFailed(
            f"The remote {without_credentials(url)} names no repository that a platform knows.",
            hint="Connect it with `osmosis workspace connect URL`, or name a workspace with "
            "`--workspace NAME`.",
        )
    return identity


def hosted_remote(remote_url: str) -> HostedRemote | None:
    """The platform and identity of a remote that a platform of ours hosts, else None."""
    url = remote_url.strip()
    if not url.lower().startswith(("http://", "https://")) or _FORBIDDEN.search(url):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    segments = parts.path.removesuffix("/").split("/")[1:]
    if not host or len(segments) < 3 or segments[-3] != HOSTED_SEGMENT or "" in segments:
        return None
    identity = _identity(segments[-2], segments[-1])
    if identity is None or host == "github.com":
        return None
    shown_host = f"[{host}]" if ":" in host else host
    netloc = f"{shown_host}:{port}" if port is not None else shown_host
    prefix = "".join(f"/{segment}" for segment in segments[:-3])
    return HostedRemote(urlunsplit((parts.scheme.lower(), netloc, prefix, "", "")), identity)


def is_github(remote_url: str) -> bool:
    """Whether the vendor's command would know the remote, too."""
    return _github_identity(remote_url.strip()) is not None


def without_credentials(remote_url: str) -> str:
    """The URL as it may be shown: no user, no password; scp style written as ``ssh://``."""
    url = remote_url.strip()
    if scp := _SCP.match(url):
        user = url.split("@", 1)[0]
        return f"ssh://{user}@{scp['host']}/{scp['path'].lstrip('/')}"
    if "://" not in url:
        return url
    scheme, rest = url.split("://", 1)
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rsplit('@', 1)[-1]}{slash}{path}"


def origin_url(root: Path) -> str | None:
    """The URL of ``origin`` as git resolves it (``insteadOf`` applied), or None."""
    result = run_git(root, "remote", "get-url", "origin")
    return result.text if result.code == 0 and result.text else None


def push_url(root: Path) -> str | None:
    """The URL that ``origin`` is pushed to; the same as its URL unless it was set apart."""
    result = run_git(root, "remote", "get-url", "--push", "origin")
    return result.text if result.code == 0 and result.text else None


def hosted_origin(root: Path, origin: str | None = None) -> HostedRemote | None:
    """The platform of ours that hosts ``origin``: by its URL, else by its push URL."""
    origin = origin or origin_url(root)
    if origin is None:
        return None
    return hosted_remote(origin) or hosted_remote(push_url(root) or "")


def workspace_identity(root: Path) -> tuple[str, str | None]:
    """``(owner/repo, origin)``: what ``workspace connect`` noted, else what ``origin`` says."""
    origin = origin_url(root)
    noted = run_git(root, "config", "--local", "--get", IDENTITY_KEY)
    if noted.code == 0 and noted.text:
        return noted.text.lower(), origin
    if origin is None:
        raise ValidationFailed(
            f"The workspace {root} has no remote named origin.",
            hint="Connect it with `osmosis workspace connect`, or name a workspace with "
            "`--workspace NAME`.",
        )
    return identity_of(origin), origin


def repository_state(root: Path, *, besides: str | None = None) -> RepositoryState:
    """Branch, head, uncommitted files and unpushed commits, by one git command.

    ``besides`` is a path that does not count as changed: a config is sent as it lies on disk.
    """
    command = ["status", "--porcelain=v2", "--branch", "--untracked-files=normal"]
    if besides:
        command += ["--", ".", f":(exclude,literal){besides}"]
    result = run_git(root, *command)
    head = branch = upstream = None
    ahead: int | None = None
    changed = 0
    for line in result.text.splitlines():
        if line.startswith("# branch.oid ") and "(initial)" not in line:
            head = line.split(" ", 2)[2]
        elif line.startswith("# branch.head ") and "(detached)" not in line:
            branch = line.split(" ", 2)[2]
        elif line.startswith("# branch.upstream "):
            upstream = line.split(" ", 2)[2]
        elif line.startswith("# branch.ab "):
            ahead = int(line.split(" ")[2].lstrip("+"))
        elif not line.startswith("#"):
            changed += 1
    return RepositoryState(branch, head, changed, upstream, ahead)


def _github_identity(url: str) -> str | None:
    if _FORBIDDEN.search(url):
        return None
    if "://" in url:
        try:
            parts = urlsplit(url)
            host, path = parts.hostname or "", parts.path
        except ValueError:
            return None
    elif scp := _SCP.match(url):
        host, path = scp["host"], re.split(r"[?#]", scp["path"], maxsplit=1)[0]
        path = path if path.startswith("/") else f"/{path}"
    else:
        return None
    if host.lower() != "github.com":
        return None
    segments = path.removesuffix("/").split("/")[1:]
    return _identity(*segments) if len(segments) == 2 else None


def _identity(owner: str, repository: str) -> str | None:
    repository = repository.removesuffix(".git")
    if not _OWNER.match(owner) or not _REPOSITORY.match(repository) or repository in (".", ".."):
        return None
    return f"{owner}/{repository}".lower()
