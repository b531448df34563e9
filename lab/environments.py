"""The built environments of the example workspace, made once for those who need nothing newer."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def example_environments(workspace: Path, cache: Path) -> Path:
    """Have the environments of ``workspace`` built into ``cache``, by whoever asks first."""
    with Path(f"{cache}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cache.exists():
            builder = [sys.executable, "-m", "lab.environment_builder"]
            subprocess.run([*builder, workspace, f"{cache}.new"], cwd=ROOT, check=True)
            Path(f"{cache}.new").rename(cache)
    return cache


def take_environments(cache: Path, to: Path) -> None:
    """Start ``to`` with what ``cache`` holds; by links, where both are on one disk."""
    unneeded = shutil.ignore_patterns("locks", "uv", "work")
    shutil.copytree(cache, to, symlinks=True, copy_function=_link, ignore=unneeded)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
