"""How ``make test`` shares the tests out among processes, and in which order.

Tests of one file stay together, so that its fixtures are made once; so do the tests of a
directory whose files share one server. Those are long and start first, or the others would wait
for them at the end.
"""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from lab.environments import example_environments
from lab.platform import ROOT

TESTS = Path(__file__).parent
SHARED = ("interop", "e2e", "chaos")
"""Directories whose files share a server, longest first."""


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environments of the example workspace, for tests that are not about building them."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    return example_environments(ROOT / "examples" / "workspace", shared / "environments")


def pytest_collection() -> None:
    """Thousands of tests are made here and none is garbage; looking for it takes a quarter more."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_configure() -> None:
    """A shell's background job ignores Ctrl-C, and so would every process that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return Together(config, log)


class Together(LoadScopeScheduling):
    """Hands out whole files, and whole directories where a server is shared."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        room = path.split("/")[1]
        return room if room in SHARED else path


def _rank(item: pytest.Item) -> int:
    room = item.path.relative_to(TESTS).parts[0]
    return SHARED.index(room) if room in SHARED else len(SHARED)
