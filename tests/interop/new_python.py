"""The vendor's package in environments of the tests' own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import uv

from tests.interop.conftest import python_312


def require_new_python(scratch: Path) -> Path:
    """An interpreter that the vendor's package accepts; without one the test is skipped."""
    python = python_312(scratch)
    if python is None:
        pytest.skip("no Python 3.12 or later on this machine for the vendor's package")
    return python


def install_vendor(directory: Path, python: Path, requirement: str) -> Path:
    """The vendor's package in a new environment; gives its command."""
    install = [uv.find_uv_bin(), "--quiet"]
    env = {**os.environ, "VIRTUAL_ENV": str(directory)}
    subprocess.run([*install, "venv", "--python", str(python), str(directory)], check=True)
    subprocess.run([*install, "pip", "install", requirement], check=True, env=env)
    return directory / "bin" / "osmosis"
