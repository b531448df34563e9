"""What one command line is about: the platform, the workspace directory and its identity.

Everything is found on first use, so a command pays only for what it needs.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osmosis.cli.arguments import Line
from osmosis.cli.environment import load_env_file
from osmosis.workspace.layout import find_workspace, require_layout
from osmosis.workspace.repository import without_credentials, workspace_identity

if TYPE_CHECKING:
    from osmosis.client.api import Api
    from osmosis.client.auth import Platform, Token


class Session:
    """The one session of this process; ``begin`` starts it afresh for a command line."""

    def __init__(self) -> None:
        self.line = Line()

    def begin(self, line: Line) -> None:
        self.__dict__.clear()
        self.line = line
        load_env_file(line.env_file)

    def close(self) -> None:
        """End the connections of the command line."""
        for name in ("api", "account"):
            opened: Api | None = self.__dict__.pop(name, None)
            if opened is not None:
                opened.close()

    def forget_login(self) -> None:
        """Look for a token anew, after a login."""
        self.close()
        self.__dict__.pop("token", None)

    # ------------------------------------------------------------------ the directory

    @cached_property
    def root(self) -> Path:
        """The workspace directory, with its layout checked."""
        root = find_workspace(Path.cwd())
        require_layout(root)
        return root

    @cached_property
    def identity(self) -> tuple[str, str | None]:
        """``(owner/repo, origin)`` of the workspace directory."""
        return workspace_identity(self.root)

    @cached_property
    def scope(self) -> dict[str, str]:
        """The one scope header: the named workspace, else the directory's repository."""
        from osmosis.client.scope import repository_scope, workspace_scope

        if self.line.workspace:
            return workspace_scope(self.line.workspace)
        return repository_scope(self.identity[0])

    @property
    def context(self) -> dict[str, Any]:
        """The context block of JSON results."""
        if self.line.workspace:
            return {"workspace": {"name": self.line.workspace}}
        identity, origin = self.identity
        return {
            "git": {
                "identity": identity,
                "remote_url": without_credentials(origin) if origin else None,
            },
            "workspace_directory": str(self.root),
        }

    # ------------------------------------------------------------------ the platform

    @cached_property
    def platform(self) -> Platform:
        from osmosis.client.auth import find_platform

        return find_platform(self.line.platform, self._hosted_origin())

    @cached_property
    def token(self) -> Token:
        from osmosis.client.auth import find_token

        return find_token(self.platform)

    @cached_property
    def api(self) -> Api:
        """The platform, scoped to the workspace."""
        from osmosis.client.api import Api

        scope = self.scope  # first: outside a workspace nothing else is worth saying
        return Api(self.platform.url, self.token.value, scope)

    @cached_property
    def account(self) -> Api:
        """The platform, without a workspace."""
        from osmosis.client.api import Api

        return Api(self.platform.url, self.token.value)

    def _hosted_origin(self) -> str | None:
        """The platform that hosts the workspace's origin, when we are inside one."""
        from osmosis.client.scope import hosting_platform

        if self.line.workspace:
            return None
        # Known already in most commands: then git need not be asked again.
        return hosting_platform(Path.cwd(), self.__dict__.get("identity", (None, None))[1])


session = Session()
"""The session of the running command."""
