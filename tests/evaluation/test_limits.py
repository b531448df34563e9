from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from osmosis.evaluation import limits
from osmosis.evaluation.gateway.failures import retry_after_s
from osmosis.evaluation.limits import CallFailure, CallLimiter, CallMeter


class Provider:
    """Succeeds unless told otherwise; knows how many calls it holds."""

    def __init__(self):
        self.hits = 0
        self.held = 0
        self.most_held = 0
        self.failures = []
        self.gate = None

    async def __call__(self):
        self.hits += 1
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        try:
            if self.gate is not None:
                await self.gate.wait()
            await asyncio.sleep(0)
            if self.failures:
                raise self.failures.pop(0)
            return "ok"
        finally:
            self.held -= 1


def refusal(**more):
    return CallFailure("429", retryable=True, rate_limited=True, **more)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(limits, "BACKOFF_FIRST_S", 0.002)
    monkeypatch.setattr(limits, "SCATTER_S", 0.0)


async def test_no_more_calls_run_at_once_than_allowed_and_waiting_is_measured():
    provider, limiter = Provider(), CallLimiter(max_concurrent=3)
    meters = [CallMeter() for _ in range(12)]
    await asyncio.gather(*(limiter.run(provider, meter) for meter in meters))
    assert provider.most_held == 3
    assert [meter.queue_s > 0 for meter in meters] == [False] * 3 + [True] * 9
    assert limiter.in_flight == limiter.waiting == 0


async def test_a_failed_call_is_repeated_until_the_retries_run_out():
    provider, limiter, meter = Provider(), CallLimiter(max_retries=3), CallMeter()
    provider.failures = [CallFailure("500", retryable=True)] * 4
    with pytest.raises(CallFailure):
        await limiter.run(provider, meter)
    assert provider.hits == meter.upstream_requests == 4
    assert meter.queue_s > 0


async def test_zero_retries_means_one_request():
    provider, limiter, meter = Provider(), CallLimiter(max_retries=0), CallMeter()
    provider.failures = [refusal()]
    with pytest.raises(CallFailure):
        await limiter.run(provider, meter)
    assert provider.hits == 1


async def test_an_attempt_that_reached_nobody_is_not_counted():
    provider, limiter, meter = Provider(), CallLimiter(max_retries=1), CallMeter()
    provider.failures = [CallFailure("refused", retryable=True, reached=False)]
    await limiter.run(provider, meter)
    assert meter.upstream_requests == 1


async def test_a_429_halves_the_width_once_a_round_and_successes_widen_it_again():
    provider, limiter = Provider(), CallLimiter(max_concurrent=8, max_retries=5)
    provider.failures = [refusal() for _ in range(8)]
    await asyncio.gather(*(limiter.run(provider, CallMeter()) for _ in range(8)))
    assert provider.hits == 16
    assert limiter.width < 8
    for _ in range(200):
        await limiter.run(provider, CallMeter())
    assert limiter.width == 8


async def test_a_row_of_refusals_holds_new_calls_back_too():
    provider, limiter = Provider(), CallLimiter(max_concurrent=10, max_retries=3)
    provider.failures = [refusal(retry_after_s=0.2) for _ in range(3)]
    early = [asyncio.create_task(limiter.run(provider, CallMeter())) for _ in range(3)]
    async with asyncio.timeout(5):
        while provider.failures:  # noqa: ASYNC110  # the failures know no event
            await asyncio.sleep(0.001)
    await asyncio.sleep(0)
    meter = CallMeter()
    await limiter.run(provider, meter)
    assert meter.queue_s > 0.1
    await asyncio.gather(*early)


async def test_retry_after_is_honoured_and_bounded(monkeypatch):
    provider, limiter, meter = Provider(), CallLimiter(), CallMeter()
    provider.failures = [refusal(retry_after_s=0.15)]
    await limiter.run(provider, meter)
    assert 0.15 <= meter.queue_s < 1
    monkeypatch.setattr(limits, "RETRY_AFTER_MAX_S", 0.05)
    provider.failures, meter = [refusal(retry_after_s=9999)], CallMeter()
    await asyncio.wait_for(limiter.run(provider, meter), 5)


async def test_a_cancelled_waiter_leaves_no_slot_behind():
    provider, limiter = Provider(), CallLimiter(max_concurrent=1)
    provider.gate = asyncio.Event()
    running = asyncio.create_task(limiter.run(provider, CallMeter()))
    waiting = [asyncio.create_task(limiter.run(provider, CallMeter())) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert limiter.waiting == 3
    waiting[0].cancel()
    provider.gate.set()
    await running
    waiting[1].cancel()  # perhaps admitted in this very moment
    await asyncio.gather(*waiting, return_exceptions=True)
    assert limiter.in_flight == limiter.waiting == 0
    assert await limiter.run(provider, CallMeter()) == "ok"


async def test_a_cancelled_call_gives_its_slot_back():
    provider, limiter = Provider(), CallLimiter(max_concurrent=1)
    provider.gate = asyncio.Event()
    running = asyncio.create_task(limiter.run(provider, CallMeter()))
    next_one = asyncio.create_task(limiter.run(provider, CallMeter()))
    await asyncio.sleep(0.01)
    running.cancel()
    provider.gate.set()
    assert await asyncio.wait_for(next_one, 5) == "ok"


def test_retry_after_reads_seconds_dates_and_milliseconds():
    assert retry_after_s({"Retry-After": "7"}) == 7
    assert retry_after_s({"Retry-After": "1.5"}) == 1.5
    assert retry_after_s({"Retry-After": "7", "retry-after-ms": "250"}) == 0.25
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    found = retry_after_s({"Retry-After": later})
    assert found is not None
    assert 25 < found < 31
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=30), usegmt=True)
    assert retry_after_s({"Retry-After": past}) == 0
    assert retry_after_s({"Retry-After": "soon"}) is None
    assert retry_after_s({}) is None
