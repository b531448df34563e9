from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from osmosis.rollout.server import lifecycle
from tests.rollout.driver import echo, reward_one, until


@asynccontextmanager
async def alive(driver):
    async with driver.app.router.lifespan_context(driver.app):
        yield


async def test_at_shutdown_running_rollouts_may_finish_and_new_ones_are_refused(serve):
    release = asyncio.Event()

    async def run(ctx):
        await release.wait()
        return await echo(ctx)

    events = []

    @asynccontextmanager
    async def users(app):
        events.append("open")
        yield {"shared": 1}
        events.append("closed")

    driver = serve(run, reward_one, lifespan=users)
    stopped = asyncio.Event()

    async def life():
        async with alive(driver):
            await stopped.wait()

    server = asyncio.create_task(life())
    await until(lambda: events == ["open"])
    rollout = await driver.start()
    await until(lambda: driver.backend.slots.running == 1)
    stopped.set()
    async with asyncio.timeout(5):
        while (await driver.health())["lifecycle"]["accepting_rollouts"]:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert (await driver.post()).status_code == 503
    assert (await driver.health())["lifecycle"]["active_rollouts"] == 1
    assert events == ["open"]
    release.set()
    await server
    assert events == ["open", "closed"]
    assert (await driver.poll(rollout))["status"] == "success"


async def test_what_does_not_finish_in_time_is_cancelled(serve, monkeypatch):
    monkeypatch.setattr(lifecycle, "DRAIN_S", 0.05)

    async def run(ctx):
        await asyncio.sleep(60)

    driver = serve(run)
    async with alive(driver):
        rollout = await driver.start()
        await until(lambda: driver.backend.slots.running == 1)
    assert (await driver.poll(rollout))["status"] == "cancelled"


async def test_the_backend_is_shut_down_once_after_the_last_rollout(serve):
    driver = serve(echo, reward_one)
    shutdowns = []

    async def shutdown():
        shutdowns.append(driver.backend.slots.running)

    driver.backend.shutdown = shutdown
    async with alive(driver):
        await driver.run()
    assert shutdowns == [0]
