"""How many rollouts may run at once, and how many wait."""

from __future__ import annotations

import asyncio

from osmosis.rollout.errors import PhaseTimeout


class Slots:
    """A fair semaphore that can be counted; ``limit=None`` never makes anyone wait."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.running = 0
        self.queued = 0
        self._semaphore = None if limit is None else asyncio.Semaphore(limit)

    async def acquire(self, patience_s: float | None) -> None:
        """Take a slot; raises ``PhaseTimeout`` when none comes free within ``patience_s``."""
        if self._semaphore is not None:
            if self._semaphore.locked():
                await self._queue(self._semaphore, patience_s)
            else:
                await self._semaphore.acquire()
        self.running += 1

    async def _queue(self, semaphore: asyncio.Semaphore, patience_s: float | None) -> None:
        self.queued += 1
        try:
            async with asyncio.timeout(patience_s):
                await semaphore.acquire()
        except TimeoutError:
            raise PhaseTimeout(
                f"the workflow's limit of {patience_s:g} s passed while it was queued for a slot; "
                f"{self.limit} run at once (workflow_config.concurrency.max_concurrent)"
            ) from None
        finally:
            self.queued -= 1

    def release(self) -> None:
        """Give a slot back."""
        self.running -= 1
        if self._semaphore is not None:
            self._semaphore.release()
