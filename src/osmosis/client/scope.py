"""Which workspace calls are about: a named one, else the repository of a directory."""

from __future__ import annotations

import contextlib
from pathlib import Path

from osmosis.client.http import GIT_SCOPE_HEADER, WORKSPACE_SCOPE_HEADER
from osmosis.wire.errors import OsmosisError
from osmosis.workspace.repository import hosted_origin


def workspace_scope(name: str) -> dict[str, str]:
    """The scope header of a workspace by its name."""
    return {WORKSPACE_SCOPE_HEADER: name}


def repository_scope(identity: str) -> dict[str, str]:
    """The scope header of a repository, ``owner/repo``."""
    return {GIT_SCOPE_HEADER: identity}


def hosting_platform(directory: Path, origin: str | None = None) -> str | None:
    """The platform that hosts the origin of the directory's repository, if one of ours does."""
    with contextlib.suppress(OsmosisError):
        hosted = hosted_origin(directory, origin)
        return hosted.base_url if hosted else None
    return None
