from __future__ import annotations

import threading
import time

import pytest

from osmosis.rollout import artifacts, storage
from osmosis.rollout.storage import Storage
from tests.rollout.driver import echo, reward_one


async def test_workflow_and_grader_share_one_directory_that_exists(serve):
    seen = []

    async def run(ctx):
        (ctx.artifacts_dir / "evidence.txt").write_text("x")
        seen.append(ctx.artifacts_dir)
        return await echo(ctx)

    async def grade(ctx):
        assert (ctx.artifacts_dir / "evidence.txt").read_text() == "x"
        seen.append(ctx.artifacts_dir)
        ctx.set_reward(1)

    driver = serve(run, grade)
    rollout = await driver.start()
    assert (await driver.result(rollout))["status"] == "success"
    assert seen == [driver.root / rollout / "artifacts"] * 2
    names = {path.name for path in (driver.root / rollout).iterdir()}
    assert names == {"artifacts", ".osmosis-health-check", "trajectory.json"}


async def test_a_rollout_that_never_asks_for_the_directory_gets_none_made(serve):
    driver = serve(echo, reward_one)
    rollout = await driver.start()
    await driver.result(rollout)
    assert [path.name for path in (driver.root / rollout).iterdir()] == ["trajectory.json"]


async def test_an_unusable_root_costs_the_directory_and_not_the_rollout(
    serve, artifact_root, monkeypatch
):
    monkeypatch.setattr(artifacts, "PREPARE_BACKOFF_S", (0.01, 0.01))
    blocked = artifact_root / "file"
    blocked.write_text("")
    monkeypatch.setenv("_OSMOSIS_ROLLOUT_ARTIFACT_ROOT", str(blocked))
    seen = []

    async def run(ctx):
        seen.append(ctx.artifacts_dir)
        return await echo(ctx)

    assert (await serve(run, reward_one).run())["status"] == "success"
    assert seen == [None]


async def test_storage_that_hangs_holds_nobody_longer_than_its_limit(monkeypatch):
    monkeypatch.setattr(storage, "STORAGE_WAIT_S", 0.05)
    monkeypatch.setattr(storage, "BACKLOG_MAX", 20)
    release = threading.Event()
    stuck = Storage()
    started = time.monotonic()
    try:
        for _ in range(4):
            with pytest.raises(TimeoutError, match="did not answer"):
                await stuck.run(release.wait)
        stuck_jobs = [stuck.run(release.wait) for _ in range(40)]
        results = await _gather(stuck_jobs)
        assert any("behind" in str(error) for error in results)
        assert time.monotonic() - started < 5
    finally:
        release.set()


async def _gather(jobs):
    import asyncio

    return await asyncio.gather(*jobs, return_exceptions=True)


async def test_an_error_of_the_file_system_comes_back_as_itself():
    def fail():
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError, match="gone"):
        await Storage().run(fail)
    assert await Storage().run(lambda: 5) == 5


def test_the_root_defaults_to_a_directory_of_the_user(monkeypatch):
    monkeypatch.delenv("_OSMOSIS_ROLLOUT_ARTIFACT_ROOT", raising=False)
    assert artifacts.artifact_root().name == ".osmosis"
