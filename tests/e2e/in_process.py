"""The command line in this process, as if it stood in a workspace of a lab."""

from __future__ import annotations

import pytest

from lab.workspace import Workspace


def enter(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test ends, this process has the directory and the variables of ``workspace``."""
    for name, value in workspace.lab.env.items():
        if name.startswith(("OSMOSIS_", "GIT_")) or name == "HOME":
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("OSMOSIS_PORT", raising=False)
    monkeypatch.chdir(workspace.directory)
