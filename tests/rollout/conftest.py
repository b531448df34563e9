from __future__ import annotations

import pytest

from tests.rollout.driver import Driver


@pytest.fixture
def artifact_root(tmp_path, monkeypatch):
    monkeypatch.setenv("_OSMOSIS_ROLLOUT_ARTIFACT_ROOT", str(tmp_path))
    return tmp_path


@pytest.fixture
async def serve(artifact_root):
    """Serves a workflow and a grader, each given as an async function of its context."""
    opened: list[Driver] = []

    def make(run, grade=None, **options) -> Driver:
        driver = Driver(run, grade, artifact_root, **options)
        opened.append(driver)
        return driver

    yield make
    for driver in opened:
        await driver.close()
