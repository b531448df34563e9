"""The one retry layer: how many model calls run at once, and when a failed one runs again.

One :class:`CallLimiter` stands before each provider key, shared by policy and judge. It admits
calls in order, as many at once as :class:`~osmosis.evaluation.call_width.CallWidth` allows. A
failed attempt that may be repeated waits outside its slot (the provider's own wait, else
exponential backoff) and goes first when it comes back; number and total time of the repeats are
bounded. While calls queue, :meth:`CallLimiter.room` holds new samples back. Nothing above or below
retries.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol, TypeVar

from osmosis.evaluation.call_width import WIDEN_EVERY_S, CallWidth, backoff_s
from osmosis.wire.samples import CallRetry

SCATTER_S = 0.1
QUEUE_SHARE = 4
"""New samples wait once the queue holds a quarter of the width: that keeps every slot busy."""

T = TypeVar("T")


class CallFailure(Exception):
    """One failed attempt, as far as the limiter must know it.

    ``limited``: the provider has no room just now (429, 503, 529). ``at_once``: the next attempt
    asks for something else, so it neither waits nor counts as a retry.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool,
        kind: str = "failed",
        status: int | None = None,
        limited: bool = False,
        retry_after_s: float | None = None,
        reached: bool = True,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        self.kind = kind
        self.status = status
        self.limited = limited
        self.retry_after_s = retry_after_s
        self.reached = reached
        self.at_once = False


@dataclass(slots=True)
class CallMeter:
    """What one call cost in waiting and in requests that reached the provider.

    ``queued`` while the call waits for its turn or for its next attempt.
    """

    queue_s: float = 0.0
    upstream_requests: int = 0
    queued: bool = False
    retries: list[CallRetry] = field(default_factory=list)


class LimitListener(Protocol):
    """Who hears of failed attempts; widths are those before and after."""

    def failed(self, failure: CallFailure, before: int, after: int) -> None: ...


class CallLimiter:
    """Admission, adaptive width and retries for all calls under one provider key.

    ``max_retry_s`` is the time from a call's first failure after which it is not repeated.
    """

    def __init__(
        self,
        *,
        ceiling: int,
        max_retries: int = 4,
        max_retry_s: float = 300.0,
        listener: LimitListener | None = None,
    ) -> None:
        self.max_retries = max_retries
        self.max_retry_s = max_retry_s
        self.in_flight = 0
        self._width = CallWidth(ceiling)
        self._listener = listener
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._held: deque[asyncio.Future[None]] = deque()
        self._wake: asyncio.TimerHandle | None = None
        self._widening: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Calls that wait for a slot now."""
        return len(self._waiting)

    @property
    def width(self) -> int:
        """Calls that may run at once now."""
        return int(self._width.value)

    @property
    def ceiling(self) -> int:
        return self._width.ceiling

    @property
    def congested(self) -> bool:
        """Whether another sample would merely lengthen the queue."""
        return bool(self._width.paused_until) or len(self._waiting) >= max(
            1, int(self._width.value) // QUEUE_SHARE
        )

    async def run(self, attempt: Callable[[], Awaitable[T]], meter: CallMeter) -> T:
        """Run ``attempt`` in a slot until it succeeds, may not be repeated, or retries run out."""
        retries, failed_at = 0, 0.0
        give_up_at: float | None = None
        last: CallFailure | None = None
        while True:
            width = self._width
            if self.in_flight < int(width.value) and not self._waiting and not width.paused_until:
                self.in_flight += 1
            elif not await self._wait_for_slot(meter, give_up_at) and last is not None:
                raise last
            began = monotonic()
            if last is not None:
                meter.retries[-1].waited_s = began - failed_at
            meter.upstream_requests += 1
            try:
                result = await attempt()
            except CallFailure as failure:
                if not failure.reached:
                    meter.upstream_requests -= 1
                if failure.at_once:
                    continue
                last, failed_at = failure, monotonic()
                if give_up_at is None:
                    give_up_at = failed_at + self.max_retry_s
                wait_s = self._after_failure(failure, began, retries, give_up_at - failed_at)
                if wait_s is None:
                    raise
            else:
                width.succeeded(self.in_flight)
                return result
            finally:
                self.in_flight -= 1
                if self._waiting or self._held:
                    self._admit()
            retries += 1
            await self._pause_before_retry(meter, last, wait_s)

    async def room(self) -> None:
        """Wait while another sample would merely lengthen the queue.

        Whoever passes takes one more along, so that all pass in time even if no call is made.
        """
        while self.congested:
            held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._held.append(held)
            self._watch_pause()
            try:
                await held
            except asyncio.CancelledError:
                with suppress(ValueError):
                    self._held.remove(held)
                self._release(1)
                raise
        self._release(1)

    async def _pause_before_retry(
        self, meter: CallMeter, failure: CallFailure, wait_s: float
    ) -> None:
        repeat = CallRetry(kind=failure.kind, http_status=failure.status)
        meter.retries.append(repeat)
        meter.queued = True
        began = monotonic()
        try:
            await asyncio.sleep(wait_s)
        finally:
            repeat.waited_s = monotonic() - began
            meter.queue_s += repeat.waited_s
        meter.queued = False

    async def _wait_for_slot(self, meter: CallMeter, give_up_at: float | None) -> bool:
        """True with a slot taken; False once ``give_up_at`` has passed. Repeats go first."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        timer: asyncio.TimerHandle | None = None
        began = monotonic()
        if give_up_at is None:
            self._waiting.append(waiter)
        else:
            self._waiting.appendleft(waiter)
            timer = loop.call_later(give_up_at - began, _time_is_up, waiter)
        meter.queued = True
        self._admit()
        try:
            admitted = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.in_flight -= 1  # admitted and cancelled in the same breath
            self._leave(waiter)
            raise
        finally:
            meter.queue_s += monotonic() - began
            if timer is not None:
                timer.cancel()
        meter.queued = False
        if not admitted:
            self._leave(waiter)
        return admitted

    def _leave(self, waiter: asyncio.Future[bool]) -> None:
        with suppress(ValueError):
            self._waiting.remove(waiter)
        self._admit()

    def _admit(self) -> None:
        if self._watch_pause():
            return
        while self._waiting and self.in_flight < max(1, int(self._width.value)):
            waiter = self._waiting.popleft()
            if not waiter.done():
                self.in_flight += 1
                waiter.set_result(True)
        if self._waiting and self._widening is None and self._width.may_widen:
            loop = asyncio.get_running_loop()
            self._widening = loop.call_later(WIDEN_EVERY_S, self._widen)
        if self._held:
            self._release(max(1, int(self._width.value) - self.in_flight))

    def _release(self, count: int) -> None:
        """Let so many held samples go on, if there is room."""
        while count and self._held and not self.congested:
            held = self._held.popleft()
            if not held.done():
                held.set_result(None)
                count -= 1

    def _watch_pause(self) -> bool:
        """Whether calls are held back just now; whoever waits is woken at the end of that."""
        if not self._width.paused_until:
            return False
        left_s = self._width.paused_until - monotonic()
        if left_s <= 0:
            self._width.paused_until = 0.0
            return False
        if self._wake is None and (self._waiting or self._held):
            self._wake = asyncio.get_running_loop().call_later(left_s, self._unpause)
        return True

    def _unpause(self) -> None:
        self._wake = None
        self._admit()

    def _widen(self) -> None:
        self._widening = None
        if self._waiting and self._width.may_widen and not self._width.paused_until:
            self._width.widen()
            self._admit()

    def _after_failure(
        self, failure: CallFailure, began: float, retries: int, left_s: float
    ) -> float | None:
        """Seconds to wait before the next attempt, or None when this failure is final."""
        before, asked_s = self.width, failure.retry_after_s
        if failure.limited and failure.retryable:
            # Longer than any call is repeated: that is a spent quota, not a pause.
            pause_s = asked_s if asked_s is None or asked_s <= self.max_retry_s else None
            self._width.refused(self.in_flight, began, pause_s)
        if self._listener is not None:
            self._listener.failed(failure, before, self.width)
        if not failure.retryable or retries >= self.max_retries:
            return None
        # A little scatter, so that calls refused together do not come back together.
        scatter_s = random.uniform(0, SCATTER_S)  # noqa: S311
        wait_s = backoff_s(retries) if asked_s is None else asked_s + scatter_s
        return wait_s if wait_s <= left_s else None


def _time_is_up(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
