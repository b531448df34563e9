"""Twenty minutes in which a model says nothing, in no time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

SILENCE_S = 20 * 60
STEP_S = 10
TURNS = 40
"""Of the loop for each step: enough for a request and its answer."""


@asynccontextmanager
async def twenty_silent_minutes(call: asyncio.Future[Any]) -> AsyncGenerator[None]:
    """Put the loop's own clock forward, so that every timer of every layer on it comes due.

    ``call`` still waits when the block begins. The clock is right again after the block.
    """
    loop = asyncio.get_running_loop()
    real, passed_s = loop.time, 0.0
    loop.time = lambda: real() + passed_s
    try:
        while passed_s < SILENCE_S:
            passed_s += STEP_S
            for _ in range(TURNS):
                await asyncio.sleep(0)
            assert not call.done(), f"given up after {passed_s} s: {call}"
        yield
    finally:
        loop.time = real
