"""Published packages in environments of the tests' own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import uv
from packaging.version import Version

from osmosis.evaluation.interpreters import find_interpreters

NO_PYTHON = "no Python 3.12 or later on this machine for the vendor's package"


def require_new_python(scratch: Path) -> Path:
    """An interpreter that the vendor's package accepts; without one the test is skipped."""
    found = find_interpreters(cache_file=scratch / "interpreters.json")
    new = [python for python in found if Version(python.version) >= Version("3.12")]
    if not new:
        pytest.skip(NO_PYTHON)
    return new[0].path


def new_environment(directory: Path, python: Path, *packages: str) -> Path:
    """A fresh environment with the packages; gives the directory of its programs."""
    subprocess.run(
        [uv.find_uv_bin(), "--quiet", "venv", "--python", str(python), str(directory)], check=True
    )
    install(directory, *packages)
    return directory / "bin"


def install(directory: Path, *words: str) -> None:
    """``uv pip install`` into an environment. What is imported of it is compiled then."""
    env = {**os.environ, "VIRTUAL_ENV": str(directory)}
    subprocess.run([uv.find_uv_bin(), "--quiet", "pip", "install", *words], check=True, env=env)
