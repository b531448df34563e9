from __future__ import annotations

import asyncio
import gc
import time

from osmosis import event_loop
from osmosis.event_loop import CATCH_UP, LONG_TURN_S, collect_seldom, quiet_turn


async def test_a_loop_that_keeps_up_is_waited_for_one_turn():
    turns = 0

    def count() -> None:
        nonlocal turns
        turns += 1

    asyncio.get_running_loop().call_soon(count)
    await quiet_turn()
    assert turns == 1


async def test_after_a_long_turn_the_loop_gets_time_to_catch_up():
    long_s = 4 * LONG_TURN_S
    asyncio.get_running_loop().call_soon(time.sleep, long_s)
    began = time.monotonic()
    await quiet_turn()
    assert time.monotonic() - began >= (1 + CATCH_UP) * long_s


async def test_a_machine_that_slept_for_an_hour_is_not_waited_for_three_more(monkeypatch):
    clock = iter([0.0, 3600.0])
    monkeypatch.setattr(event_loop, "monotonic", lambda: next(clock))
    async with asyncio.timeout(5):
        await quiet_turn()


def test_what_exists_is_not_looked_through_again_for_cycles():
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        collect_seldom()
        assert gc.get_freeze_count() > frozen
        assert gc.get_threshold() > before
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
