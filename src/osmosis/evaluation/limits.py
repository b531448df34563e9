"""The one retry layer: how many model calls run at once, and when a failed one runs again.

One :class:`CallLimiter` stands before each provider key, shared by policy and judge. It admits
calls in order, halves its width when the provider says 429, and widens again with successes.
A failed attempt that may be repeated waits outside its slot (Retry-After, else exponential
backoff) and goes first when it comes back. Nothing above or below retries.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

DEFAULT_MAX_CONCURRENT_CALLS = 1024
BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0
RETRY_AFTER_MAX_S = 60.0
SCATTER_S = 0.1
WIDENING_SHARE = 1 / 32
"""Share of the full width regained per full round of successful calls after a 429."""
PAUSE_AFTER_REFUSALS = 3
"""So many 429 in a row, with no success between, hold new calls back too."""

T = TypeVar("T")


class CallFailure(Exception):
    """One failed attempt, as far as the limiter must know it."""

    def __init__(
        self,
        message: str,
        *,
        retryable: bool,
        rate_limited: bool = False,
        retry_after_s: float | None = None,
        reached: bool = True,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        self.rate_limited = rate_limited
        self.retry_after_s = retry_after_s
        self.reached = reached


@dataclass(slots=True)
class CallMeter:
    """What one call cost in waiting and in requests that reached the provider."""

    queue_s: float = 0.0
    upstream_requests: int = 0


class CallLimiter:
    """Admission, adaptive width and retries for all calls under one provider key."""

    def __init__(self, *, max_concurrent: int | None = None, max_retries: int = 4) -> None:
        self.ceiling = max_concurrent or DEFAULT_MAX_CONCURRENT_CALLS
        self.max_retries = max_retries
        self.width = float(self.ceiling)
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._refusals = 0
        self._paused_until = 0.0
        self._cut_at = 0.0
        self._wake: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Calls that wait for a slot now."""
        return len(self._waiting)

    async def run(self, attempt: Callable[[], Awaitable[T]], meter: CallMeter) -> T:
        """Run ``attempt`` in a slot until it succeeds, may not be repeated, or retries run out."""
        retries = 0
        while True:
            if self.in_flight < int(self.width) and not self._waiting and not self._paused_until:
                self.in_flight += 1
            else:
                await self._wait_for_slot(meter, first=retries > 0)
            began = monotonic()
            meter.upstream_requests += 1
            try:
                result = await attempt()
            except CallFailure as failure:
                if not failure.reached:
                    meter.upstream_requests -= 1
                wait_s = self._after_failure(failure, began, retries)
                if wait_s is None:
                    raise
            else:
                self._after_success()
                return result
            finally:
                self.in_flight -= 1
                if self._waiting:
                    self._admit()
            retries += 1
            slept = monotonic()
            try:
                await asyncio.sleep(wait_s)
            finally:
                meter.queue_s += monotonic() - slept

    async def _wait_for_slot(self, meter: CallMeter, *, first: bool) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.appendleft(waiter)
        else:
            self._waiting.append(waiter)
        began = monotonic()
        self._admit()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.in_flight -= 1  # admitted and cancelled in the same breath
            else:
                with suppress(ValueError):
                    self._waiting.remove(waiter)
            self._admit()
            raise
        finally:
            meter.queue_s += monotonic() - began

    def _admit(self) -> None:
        if self._paused_until:
            left_s = self._paused_until - monotonic()
            if left_s > 0:
                if self._wake is None and self._waiting:
                    self._wake = asyncio.get_running_loop().call_later(left_s, self._unpause)
                return
            self._paused_until = 0.0
        while self._waiting and self.in_flight < max(1, int(self.width)):
            waiter = self._waiting.popleft()
            if not waiter.done():
                self.in_flight += 1
                waiter.set_result(None)

    def _unpause(self) -> None:
        self._wake = None
        self._admit()

    def _after_success(self) -> None:
        self._refusals = 0
        if self.width < self.ceiling:
            step = max(1.0, self.ceiling * WIDENING_SHARE) / self.width
            self.width = min(float(self.ceiling), self.width + step)

    def _after_failure(self, failure: CallFailure, began: float, retries: int) -> float | None:
        """Seconds to wait before the next attempt, or None when this failure is final."""
        wait_s = backoff_s(retries)
        if failure.retry_after_s is not None:
            # A little scatter, so that calls refused together do not come back together.
            wait_s = min(failure.retry_after_s, RETRY_AFTER_MAX_S) + random.uniform(0, SCATTER_S)  # noqa: S311
        if failure.rate_limited:
            self._refusals += 1
            if began >= self._cut_at:  # one cut per round: later 429 of that round are old news
                self.width = max(1.0, min(self.width, self.in_flight) / 2)
                self._cut_at = monotonic()
            if self._refusals >= PAUSE_AFTER_REFUSALS:
                self._paused_until = max(self._paused_until, monotonic() + wait_s)
        if not failure.retryable or retries >= self.max_retries:
            return None
        return wait_s


def backoff_s(retries: int) -> float:
    """Exponential backoff with jitter: half to whole of 0.5, 1, 2, 4 ... 30 s."""
    whole = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2**retries)
    return whole * random.uniform(0.5, 1.0)  # noqa: S311
