"""How late an event loop comes to its turns: what blocks it shows here first.

Server and shard share this, so it knows nothing of them and needs only the standard library.
"""

from __future__ import annotations

import asyncio
import gc
from time import monotonic

LOOK_S = 0.1
KEPT = 10
"""So many looks are remembered: the lag of the last second."""
COLLECT_EVERY = 5_000
"""New objects between two looks for cycles. A request makes hundreds and leaves none behind, so
Python's own 700 means a look at all of them for each."""
COLLECT_OLDER_EVERY, COLLECT_ALL_EVERY = 1, 1_000
"""So many looks at the young come before one at those that were left, which is the longer the more
there are: 0.1 s for a hundred thousand. All objects are looked at as seldom as can be: a thousand
samples in flight are half a million."""
LONG_TURN_S = 0.01
CATCH_UP = 3
"""Turns' worth of time that a loop gets to catch up after a long one."""
CATCH_UP_S = 0.25
"""At most: a process that was frozen, or a machine that slept, has nothing to catch up with."""


def collect_seldom() -> None:
    """For a process whose imports are done: they stay, and what comes is mostly no cycle."""
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, COLLECT_OLDER_EVERY, COLLECT_ALL_EVERY)


async def quiet_turn() -> None:
    """Before starting more work: wait a turn, and where it was long some more.

    A loop that is behind handles all that came meanwhile in one turn, which is longer still.
    """
    began = monotonic()
    await asyncio.sleep(0)
    turn_s = monotonic() - began
    if turn_s > LONG_TURN_S:
        await asyncio.sleep(min(CATCH_UP * turn_s, CATCH_UP_S))


class LoopLag:
    """Run :meth:`watch` beside everything else; :attr:`worst_s` is the worst of the last second."""

    def __init__(self) -> None:
        self._recent: list[float] = [0.0] * KEPT
        self._index = 0

    @property
    def worst_s(self) -> float:
        """The longest that a turn came late lately, in seconds."""
        return max(self._recent)

    async def watch(self) -> None:
        """Look again and again, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self._recent[self._index] = max(0.0, loop.time() - due)
            self._index = (self._index + 1) % KEPT
