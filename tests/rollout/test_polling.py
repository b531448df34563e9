from __future__ import annotations

import asyncio
import time

import pytest

from osmosis.rollout.server import registry as registry_module
from osmosis.rollout.types import RolloutResultResponse
from tests.rollout.driver import echo, reward_one, until


def waiting():
    """A workflow that runs until its event is set, and the event."""
    event = asyncio.Event()

    async def run(ctx):
        await event.wait()
        return await echo(ctx)

    return run, event


async def test_a_poll_needs_the_lease_of_its_own_rollout(serve):
    driver = serve(echo, reward_one)
    one, two = await driver.start(), await driver.start()
    path = f"/rollout/{one}/result"
    assert (await driver.http.get(path)).status_code == 422
    empty = {"X-Osmosis-Rollout-Lease": ""}
    assert (await driver.http.get(path, headers=empty)).status_code == 422
    foreign = {"X-Osmosis-Rollout-Lease": driver.leases[two]}
    assert (await driver.http.get(path, headers=foreign)).status_code == 403
    assert (await driver.http.get("/rollout/none/result", headers=foreign)).status_code == 404


async def test_a_poll_waits_for_the_next_status_and_no_longer(serve):
    run, event = waiting()
    driver = serve(run, reward_one)
    rollout = await driver.start()
    await until(lambda: driver.backend.slots.running == 1)
    poll = asyncio.create_task(driver.poll(rollout))
    await asyncio.sleep(0.05)
    assert not poll.done()
    event.set()
    assert (await poll)["status"] in ("grading", "success")
    assert (await driver.result(rollout))["status"] == "success"


async def test_a_poll_may_sleep_through_the_statuses_in_between(serve):
    run, event = waiting()
    driver = serve(run, reward_one)
    rollout = await driver.start()
    poll = asyncio.create_task(driver.poll(rollout, "?until=finished"))
    await until(lambda: driver.backend.slots.running == 1)
    event.set()
    assert (await poll)["status"] == "success"


async def test_a_poll_answers_the_current_status_when_its_wait_is_over(serve):
    run, _ = waiting()
    driver = serve(run, result_wait_timeout_sec=0.05, polling_lease_timeout_sec=5)
    rollout = await driver.start()
    await until(lambda: driver.backend.slots.running == 1)
    started = time.monotonic()
    body = await driver.poll(rollout)
    assert 0.04 < time.monotonic() - started < 1
    assert body == {
        "rollout_id": rollout,
        "status": "running",
        "sample": None,
        "err_message": None,
        "err_category": None,
    }


async def test_a_finished_rollout_answers_at_once_and_again(serve):
    driver = serve(echo, reward_one)
    rollout = await driver.start()
    first = await driver.result(rollout)
    RolloutResultResponse.model_validate(first)
    assert await driver.poll(rollout) == first
    assert first["sample"]["reward"] == 1.0
    assert "trajectory_messages" not in first["sample"]


async def test_a_rollout_that_nobody_polls_for_is_given_up(serve):
    cancelled = asyncio.Event()

    async def run(ctx):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    driver = serve(run, result_wait_timeout_sec=0.01, polling_lease_timeout_sec=0.1)
    rollout = await driver.start()
    await asyncio.wait_for(cancelled.wait(), 5)
    body = await driver.poll(rollout)
    assert (body["status"], body["err_category"]) == ("failure", "lease_expired")


async def test_each_arriving_poll_renews_the_lease(serve):
    run, event = waiting()
    driver = serve(run, reward_one, result_wait_timeout_sec=0.05, polling_lease_timeout_sec=0.2)
    rollout = await driver.start()
    started = time.monotonic()
    while time.monotonic() - started < 0.6:
        assert (await driver.poll(rollout))["status"] in ("queued", "running")
    event.set()
    assert (await driver.result(rollout))["status"] == "success"


async def test_a_driver_of_the_callback_dialect_has_no_lease_to_lose(serve):
    keys = []

    async def run(ctx):
        from osmosis.rollout import get_rollout_context

        keys.append(get_rollout_context().api_key)
        await asyncio.sleep(0.3)
        return await echo(ctx)

    driver = serve(run, reward_one, result_wait_timeout_sec=0.01, polling_lease_timeout_sec=0.05)
    rollout = await driver.start(
        completion_callback_url="http://driver/done", controller_api_key="callbacks"
    )
    await asyncio.sleep(0.4)
    assert (await driver.result(rollout))["status"] == "success"
    assert keys == ["callbacks"]


async def test_a_blocked_event_loop_does_not_cost_the_lease(serve):
    async def run(ctx):
        await asyncio.sleep(0.05)
        time.sleep(1.5)  # noqa: ASYNC251  (this is the fault under test)
        await asyncio.sleep(0.2)
        return await echo(ctx)

    driver = serve(run, reward_one, result_wait_timeout_sec=0.05, polling_lease_timeout_sec=0.3)
    assert (await driver.run())["status"] == "success"


async def test_a_result_is_forgotten_after_its_time(serve):
    driver = serve(echo, reward_one, result_retention_sec=0.1)
    rollout = await driver.start()
    await driver.result(rollout)

    async with asyncio.timeout(5):
        while (await driver.raw_poll(rollout)).status_code != 404:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert (await driver.post(rollout_id=rollout)).status_code == 202


async def test_fetched_results_make_room_when_memory_is_short(serve, monkeypatch):
    monkeypatch.setattr(registry_module, "RETAINED_MAX_BYTES", 5000)

    async def run(ctx):
        return [{"role": "assistant", "content": "x" * 2000}]

    driver = serve(run, reward_one)
    unfetched = await driver.start()
    first = await driver.start()
    await driver.result(first)
    for _ in range(3):
        await driver.run()
    assert (await driver.raw_poll(first)).status_code == 404
    assert (await driver.poll(unfetched))["status"] == "success"


@pytest.mark.parametrize(
    "wrong",
    [
        {"result_wait_timeout_sec": 0},
        {"result_wait_timeout_sec": 200},
        {"polling_lease_timeout_sec": float("inf")},
        {"result_retention_sec": -1},
        {"api_key": " "},
    ],
)
def test_settings_out_of_bounds_are_refused(serve, wrong):
    with pytest.raises(ValueError):
        serve(echo, **wrong)
