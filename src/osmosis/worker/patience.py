"""Calls of the runner API that wait while the platform is away: one rhythm for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from osmosis.worker.errors import Unavailable

RETRY_FIRST_S, RETRY_MOST_S = 0.1, 2.0

T = TypeVar("T")


async def until_answered(call: Callable[[], Awaitable[T]]) -> T:
    """The answer of ``call``, repeated while the platform is away; its other errors are raised.

    Whoever holds the lease bounds the wait: a lease that is lost ends it.
    """
    delay_s = RETRY_FIRST_S
    while True:
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, RETRY_MOST_S)
