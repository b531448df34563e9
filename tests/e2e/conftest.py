"""One platform for all end-to-end tests: a real server, a real git client, the real command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.platform import Lab
from lab.workspace import Workspace


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def workspace(lab: Lab) -> Workspace:
    made = lab.workspace("alpha")
    for name in ("multiply", "calculator", "judged"):
        made.upload(f"data/{name}.jsonl")
    return made


@pytest.fixture
def scratch_lab(tmp_path: Path) -> Iterator[Lab]:
    """A platform of the test's own, for what would disturb the others."""
    with Lab(tmp_path) as running:
        yield running
