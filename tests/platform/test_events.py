from __future__ import annotations

import asyncio

from osmosis.platform import events as module
from osmosis.platform.events import Events


async def test_a_waiter_wakes_when_its_topic_is_published_and_not_for_another() -> None:
    events = Events()
    waiting = asyncio.create_task(events.wait("runs", 5))
    await asyncio.sleep(0)
    events.publish("jobs")
    await asyncio.sleep(0)
    assert not waiting.done()
    events.publish("runs")
    assert await waiting is True


async def test_a_change_between_the_look_and_the_wait_is_not_missed() -> None:
    events = Events()
    mark = events.mark()
    events.publish("runs")
    assert await events.wait("runs", 5, since=mark) is True
    assert await events.wait("runs", 0.01, since=events.mark()) is False


async def test_a_forgotten_topic_wakes_rather_than_sleeps() -> None:
    events = Events()
    mark = events.mark()
    events.publish("runs")
    for number in range(module.REMEMBERED_TOPICS):
        events.publish(f"run:{number}")
    assert await events.wait("runs", 5, since=mark) is True


async def test_closing_releases_every_waiter_and_leaves_nothing_behind() -> None:
    events = Events()
    waiting = [asyncio.create_task(events.wait(f"run:{i}", 60)) for i in range(10)]
    await asyncio.sleep(0)
    events.close()
    assert await asyncio.gather(*waiting) == [False] * 10
    assert await events.wait("runs", 60) is False
    assert not events._waiters
