"""The vendor's published package in an environment of its own, beside a server of ours.

One server, one environment and one workspace serve all tests here; each test names what it makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.platform import Lab
from lab.ports import free_port
from lab.workspace import Workspace
from tests.e2e.configs import eval_config
from tests.interop.environments import NO_PYTHON, new_environment, require_new_python
from tests.interop.rollouts import MAIN, PYPROJECT
from tests.interop.vendor import Vendor

VENDOR = "osmosis-ai[server]==0.3.8"
SIMPLE_BYTES, PART_BYTES = 50_000, 40_000


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A skipped test of the vendor's package must not go by in silence."""
    skipped = terminalreporter.stats.get("skipped", [])
    ours = [report for report in skipped if NO_PYTHON in str(report.longrepr)]
    if ours:
        text = f"{len(ours)} TESTS OF THE VENDOR'S PACKAGE WERE SKIPPED: {NO_PYTHON}"
        terminalreporter.write_sep("!", text, red=True, bold=True)


@pytest.fixture(scope="session")
def tls_port() -> int:
    """Where a proxy that ends TLS may listen; the server knows it as its outer address."""
    return free_port()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, tls_port: int) -> Iterator[Lab]:
    small_parts = {
        "OSMOSIS_DATASET_SIMPLE_BYTES": str(SIMPLE_BYTES),
        "OSMOSIS_DATASET_PART_BYTES": str(PART_BYTES),
        "OSMOSIS_PUBLIC_URL": f"https://127.0.0.1:{tls_port}",
    }
    with Lab(tmp_path_factory.mktemp("interop"), extra_env=small_parts) as running:
        yield running


@pytest.fixture(scope="session")
def vendor_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the vendor's programs, in a fresh environment."""
    python = require_new_python(tmp_path_factory.mktemp("probe"))
    return new_environment(tmp_path_factory.mktemp("vendor") / "venv", python, VENDOR)


@pytest.fixture(scope="session")
def workspace(lab: Lab) -> Workspace:
    """Pushed to us, with the github.com origin that the vendor's command insists on."""
    made = lab.workspace("vendors")
    made.write("rollouts/vendor-multiply/main.py", MAIN)
    made.write("rollouts/vendor-multiply/pyproject.toml", PYPROJECT)
    for name, secrets in (("main", ["SOME_KEY"]), ("flaky", ["MOOD"]), ("keys", ["ONE", "TWO"])):
        config = eval_config(
            "vendor-multiply",
            dataset="sums",
            limit=4,
            n=2 if name == "flaky" else 1,
            batch_size=8,
            secrets=secrets,
        )
        made.write(f"configs/eval/{name}.toml", config)
    rows = (made.directory / "data" / "multiply.jsonl").read_text().splitlines(keepends=True)
    made.write("data/sums.jsonl", "".join(rows[:40]))
    made.push("Add a rollout on the vendor's SDK")
    made.osmosis("workspace", "connect", "--vendor-cli")
    return made


@pytest.fixture(scope="session")
def vendor(vendor_python: Path, lab: Lab, workspace: Workspace) -> Vendor:
    """The vendor's command in the workspace, with the token of the server's machine."""
    token = (lab.data / "local-token").read_text().strip()
    env = {
        **lab.env,
        "OSMOSIS_PLATFORM_URL": lab.url,
        "OSMOSIS_TOKEN": token,
        "OSMOSIS_TOKEN_PLATFORM_URL": lab.url,
    }
    return Vendor(lab, vendor_python / "osmosis", env, workspace.directory)


@pytest.fixture(scope="session")
def sums(vendor: Vendor) -> str:
    """A small dataset, uploaded in one piece and ready."""
    vendor("dataset", "upload", "data/sums.jsonl", "--yes")
    vendor.wait_for_dataset("sums")
    return "sums"
