"""The vendor's published package in an environment of its own, beside a server of ours."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uv
from packaging.version import Version

from lab.platform import Lab
from osmosis.evaluation.interpreters import find_interpreters

VENDOR = "osmosis-ai[server]==0.3.8"


@dataclass(frozen=True)
class Vendor:
    """The vendor's command, and the environment that points it at our server."""

    command: Path
    env: dict[str, str]


def python_312(scratch: Path) -> Path | None:
    found = find_interpreters(cache_file=scratch / "interpreters.json")
    new = [python for python in found if Version(python.version) >= Version("3.12")]
    return new[0].path if new else None


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("interop")) as running:
        yield running


@pytest.fixture(scope="session")
def vendor(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Vendor:
    python = python_312(tmp_path_factory.mktemp("probe"))
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
