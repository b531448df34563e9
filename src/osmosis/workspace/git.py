"""Asking git: one short, quiet, bounded command."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from osmosis.wire.errors import WorkspaceRequired

GIT_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class GitResult:
    code: int
    text: str
    error: str


def run_git(directory: Path, *arguments: str, timeout_s: float = GIT_TIMEOUT_S) -> GitResult:
    """Run ``git -C directory arguments`` without prompts; the caller judges the exit code."""
    environment = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments],
            capture_output=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise WorkspaceRequired(
            "git is not installed or not on PATH.", hint="Install git; a workspace lives in it."
        ) from None
    except subprocess.TimeoutExpired:
        return GitResult(124, "", f"git {arguments[0]} did not answer within {timeout_s:g} s")
    return GitResult(
        done.returncode,
        done.stdout.decode("utf-8", "replace").strip("\n"),
        done.stderr.decode("utf-8", "replace").strip(),
    )
