from __future__ import annotations

import asyncio

import pytest

from tests.rollout.driver import echo, reward_one, until


async def forever(ctx):
    await asyncio.sleep(60)


async def test_running_and_queued_rollouts_are_cancelled_and_say_which_they_were(serve):
    driver = serve(forever)
    ids = [await driver.start() for _ in range(5)]
    await until(lambda: driver.backend.slots.running == 4)
    dispositions = await driver.cancel(ids=[*ids, "unknown"])
    assert [dispositions[i] for i in ids] == ["cancelled_running"] * 4 + ["cancelled_queued"]
    assert dispositions["unknown"] == "not_found"
    for rollout in ids:
        body = await driver.poll(rollout)
        assert (body["status"], body["sample"]) == ("cancelled", None)
    await until(lambda: driver.backend.slots.running == 0)


async def test_cancelling_twice_changes_nothing(serve):
    driver = serve(forever)
    rollout = await driver.start()
    await driver.cancel(ids=[rollout])
    assert await driver.cancel(ids=[rollout]) == {rollout: "not_found"}
    assert (await driver.poll(rollout))["status"] == "cancelled"


async def test_a_prefix_chooses_among_the_unfinished(serve):
    driver = serve(forever)
    for name in ("a-1", "a-2", "b-1"):
        await driver.start(rollout_id=name)
    assert set(await driver.cancel(prefix="a-")) == {"a-1", "a-2"}
    assert set(await driver.cancel(all=True)) == {"a-1", "a-2", "b-1"}


async def test_a_finished_rollout_is_not_found_and_keeps_its_result(serve):
    driver = serve(echo, reward_one)
    rollout = await driver.start()
    await driver.result(rollout)
    assert await driver.cancel(all=True) == {rollout: "not_found"}
    assert (await driver.poll(rollout))["status"] == "success"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"all": False},
        {"all": True, "ids": []},
        {"ids": ["a"], "prefix": "b"},
        {"ids": "a"},
        {"prefix": 1},
        [],
    ],
)
async def test_anything_but_one_selector_is_a_422(serve, body):
    assert (await serve(echo).http.post("/rollout/cancel", json=body)).status_code == 422


@pytest.mark.parametrize("body", [{"ids": []}, {"prefix": ""}])
async def test_an_empty_selector_still_counts_as_given(serve, body):
    assert await serve(echo).cancel(**body) == {}


async def test_a_rollout_that_ignores_its_cancellation_is_cancelled_all_the_same(serve):
    release = asyncio.Event()

    async def run(ctx):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    driver = serve(run)
    try:
        rollout = await driver.start()
        await until(lambda: driver.backend.slots.running == 1)
        await driver.cancel(ids=[rollout])
        assert (await driver.poll(rollout))["status"] == "cancelled"
    finally:
        release.set()
