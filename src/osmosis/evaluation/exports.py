"""Records on their way beside the lanes: a sample's artifacts never hold up the next sample."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

PLACES_PER_SLOT = 4
MIN_PLACES = 64
"""So many exports may be under way; then samples wait, for what they leave takes disk."""

Guard = Callable[[Coroutine[Any, Any, None]], Coroutine[Any, Any, None]]


class Exports:
    """Starts exports and knows when all are through. ``guard`` takes what goes wrong in one."""

    def __init__(self, slots: int, guard: Guard) -> None:
        self._places = asyncio.Semaphore(max(MIN_PLACES, PLACES_PER_SLOT * slots))
        self._guard = guard
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """Those that are under way."""
        return set(self._tasks)

    async def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin; returns as soon as there is a place for it."""
        await self._places.acquire()
        task = asyncio.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def settled(self) -> None:
        """Wait for all that were started."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._places.release()
