"""The vendor's published package in an environment of its own, beside a server of ours."""

from __future__ import annotations

import asyncio
import os
import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uv

from lab.platform import Lab

VENDOR = "osmosis-ai[server]==0.3.8"


@dataclass(frozen=True)
class Vendor:
    """The vendor's command, and the environment that points it at our server."""

    command: Path
    env: dict[str, str]


def python_312() -> Path | None:
    from osmosis.evaluation.interpreters import find_interpreters

    found = asyncio.run(find_interpreters())
    new = [python for python in found if python.version >= (3, 12)]
    return new[0].path if new else None


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("interop")) as running:
        yield running


@pytest.fixture(scope="session")
def vendor(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Vendor:
    python = python_312()
    if python is None:
        warnings.warn("SKIPPED: no Python 3.12 or later for the vendor's CLI", stacklevel=1)
        pytest.skip("no Python 3.12 or later on this machine")
    directory = tmp_path_factory.mktemp("vendor") / "venv"
    install = [uv.find_uv_bin(), "--quiet"]
    quiet = {**os.environ, "VIRTUAL_ENV": str(directory)}
    subprocess.run([*install, "venv", "--python", str(python), str(directory)], check=True)
    subprocess.run(
        [*install, "pip", "install", "--compile-bytecode", VENDOR], check=True, env=quiet
    )
    token = (lab.data / "local-token").read_text().strip()
    env = {
        **lab.env,
        "OSMOSIS_PLATFORM_URL": lab.url,
        "OSMOSIS_TOKEN": token,
        "OSMOSIS_TOKEN_PLATFORM_URL": lab.url,
    }
    return Vendor(directory / "bin" / "osmosis", env)
