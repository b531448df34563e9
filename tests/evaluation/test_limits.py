from __future__ import annotations

import asyncio

import pytest

from osmosis.evaluation import call_width, limits
from osmosis.evaluation.limits import CallFailure, CallLimiter, CallMeter


class Provider:
    """Succeeds unless told otherwise; knows how many calls it holds."""

    def __init__(self, takes=None):
        self.hits = 0
        self.held = 0
        self.most_held = 0
        self.refused = 0
        self.failures = []
        self.gate = None
        self.takes = takes

    async def __call__(self):
        self.hits += 1
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        try:
            if self.takes is not None and self.held > self.takes:
                self.refused += 1
                await asyncio.sleep(0.001)
                raise refusal()
            if self.gate is not None:
                await self.gate.wait()
            await asyncio.sleep(0)
            if self.failures:
                raise self.failures.pop(0)
            if self.takes is not None:
                await asyncio.sleep(0.005)
            return "ok"
        finally:
            self.held -= 1


class Listener:
    def __init__(self):
        self.widths = []

    def failed(self, failure, before, after):
        self.widths.append((before, after))


def refusal(**more):
    return CallFailure("429", kind="rate_limit", status=429, retryable=True, limited=True, **more)


def broken(**more):
    return CallFailure("500", kind="server_error", status=500, retryable=True, **more)


def limiter_of(ceiling=64, **more):
    return CallLimiter(ceiling=ceiling, **more)


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # what is awaited has no event
            await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(call_width, "BACKOFF_FIRST_S", 0.002)
    monkeypatch.setattr(limits, "SCATTER_S", 0.0)


async def test_no_more_calls_run_at_once_than_allowed_and_waiting_is_measured():
    provider, limiter = Provider(), limiter_of(3)
    meters = [CallMeter() for _ in range(12)]
    await asyncio.gather(*(limiter.run(provider, meter) for meter in meters))
    assert provider.most_held == 3
    assert [meter.queue_s > 0 for meter in meters] == [False] * 3 + [True] * 9
    assert limiter.in_flight == limiter.waiting == 0


async def test_a_run_starts_below_its_ceiling_and_grows_with_every_answer():
    provider, limiter = Provider(), limiter_of(1000)
    assert limiter.width == call_width.START_WIDTH
    await asyncio.gather(*(limiter.run(provider, CallMeter()) for _ in range(3000)))
    assert limiter.width > 300
    assert provider.most_held > 300


async def test_calls_that_last_do_not_keep_the_others_waiting(monkeypatch):
    monkeypatch.setattr(limits, "WIDEN_EVERY_S", 0.001)
    provider, limiter = Provider(), limiter_of(512)
    provider.gate = asyncio.Event()
    running = [asyncio.create_task(limiter.run(provider, CallMeter())) for _ in range(512)]
    await until(lambda: provider.held == 512)
    provider.gate.set()
    await asyncio.gather(*running)


async def test_a_failed_call_is_repeated_until_the_retries_run_out_and_each_is_noted():
    provider, limiter, meter = Provider(), limiter_of(max_retries=3), CallMeter()
    provider.failures = [broken(), refusal(), broken(), broken()]
    with pytest.raises(CallFailure):
        await limiter.run(provider, meter)
    assert provider.hits == meter.upstream_requests == 4
    assert [(r.kind, r.http_status) for r in meter.retries] == [
        ("server_error", 500),
        ("rate_limit", 429),
        ("server_error", 500),
    ]
    assert all(retry.waited_s > 0 for retry in meter.retries)
    assert meter.queue_s >= sum(retry.waited_s for retry in meter.retries) * 0.9


async def test_zero_retries_means_one_request():
    provider, limiter, meter = Provider(), limiter_of(max_retries=0), CallMeter()
    provider.failures = [refusal()]
    with pytest.raises(CallFailure):
        await limiter.run(provider, meter)
    assert (provider.hits, meter.retries) == (1, [])


async def test_a_call_is_given_up_when_its_time_for_retries_is_over():
    provider, limiter, meter = Provider(), limiter_of(max_retries=20, max_retry_s=0.05), CallMeter()
    provider.failures = [broken() for _ in range(30)]
    began = asyncio.get_running_loop().time()
    with pytest.raises(CallFailure):
        await limiter.run(provider, meter)
    assert asyncio.get_running_loop().time() - began < 1
    assert 2 <= provider.hits < 20


async def test_a_wait_longer_than_the_time_for_retries_is_not_begun():
    provider, limiter, meter = Provider(), limiter_of(max_retry_s=5), CallMeter()
    provider.failures = [refusal(retry_after_s=3600)]
    with pytest.raises(CallFailure):
        await asyncio.wait_for(limiter.run(provider, meter), 2)
    assert provider.hits == 1
    provider.failures = [refusal(retry_after_s=3600) for _ in range(4)]
    for _ in range(4):
        with pytest.raises(CallFailure):
            await asyncio.wait_for(limiter.run(provider, CallMeter()), 2)
    assert await asyncio.wait_for(limiter.run(provider, CallMeter()), 2) == "ok"


async def test_a_repeat_that_finds_no_slot_in_time_ends_with_its_failure():
    provider, limiter = Provider(), limiter_of(1, max_retry_s=0.2)
    provider.failures = [broken(retry_after_s=0.1)]
    first = asyncio.create_task(limiter.run(provider, CallMeter()))
    await until(lambda: not provider.failures)
    provider.gate = asyncio.Event()
    blocking = asyncio.create_task(limiter.run(provider, CallMeter()))
    with pytest.raises(CallFailure):
        await asyncio.wait_for(first, 2)
    provider.gate.set()
    assert await blocking == "ok"
    assert limiter.in_flight == limiter.waiting == 0


async def test_an_attempt_that_reached_nobody_is_not_counted():
    provider, limiter, meter = Provider(), limiter_of(max_retries=1), CallMeter()
    provider.failures = [CallFailure("refused", retryable=True, reached=False)]
    await limiter.run(provider, meter)
    assert meter.upstream_requests == 1


async def test_another_way_of_asking_is_no_retry():
    provider, limiter, meter = Provider(), limiter_of(max_retries=0), CallMeter()
    other_way = CallFailure("unknown field", retryable=False)
    other_way.at_once = True
    provider.failures = [other_way]
    assert await limiter.run(provider, meter) == "ok"
    assert (meter.upstream_requests, meter.retries) == (2, [])


async def test_a_limited_provider_gets_all_calls_with_few_refusals():
    provider, listener = Provider(takes=5), Listener()
    limiter = limiter_of(64, listener=listener)
    results = await asyncio.gather(*(limiter.run(provider, CallMeter()) for _ in range(300)))
    assert results == ["ok"] * 300
    assert provider.hits == 300 + provider.refused
    assert provider.refused < 60, "27 at the start, then hardly any"
    assert listener.widths[0] == (32, 16)
    assert 3 <= limiter.width <= 6


async def test_a_key_that_takes_one_call_is_served_one_by_one():
    provider = Provider(takes=1)
    limiter = limiter_of(64)
    results = await asyncio.gather(*(limiter.run(provider, CallMeter()) for _ in range(100)))
    assert results == ["ok"] * 100
    assert limiter.width == 1


async def test_after_an_outage_the_width_is_soon_what_it_was():
    provider, limiter = Provider(), limiter_of(200, max_retries=8)
    await asyncio.gather(*(limiter.run(provider, CallMeter()) for _ in range(2000)))
    before = limiter.width
    provider.failures = [refusal() for _ in range(before + 2)]
    hits = provider.hits
    await asyncio.gather(*(limiter.run(provider, CallMeter()) for _ in range(before)))
    assert provider.hits - hits == 2 * before + 2, "none but the first round and two probes"
    await asyncio.gather(*(limiter.run(provider, CallMeter()) for _ in range(500)))
    assert limiter.width >= before / 2


async def test_after_a_cut_growth_waits_for_the_cool_down(monkeypatch):
    provider, limiter = Provider(), limiter_of(16)
    provider.failures = [refusal()]
    await asyncio.gather(*(limiter.run(provider, CallMeter()) for _ in range(16)))
    await asyncio.gather(*(limiter.run(provider, CallMeter()) for _ in range(200)))
    assert limiter.width == 12, "three quarters of where it was refused"
    monkeypatch.setattr(limiter._width, "_calm_at", 0.0)
    await asyncio.gather(*(limiter.run(provider, CallMeter()) for _ in range(400)))
    assert limiter.width == 16


async def test_a_row_of_refusals_holds_new_calls_back_too():
    provider, limiter = Provider(), limiter_of(10, max_retries=3)
    provider.failures = [refusal(retry_after_s=0.2) for _ in range(3)]
    early = [asyncio.create_task(limiter.run(provider, CallMeter())) for _ in range(3)]
    await until(lambda: not provider.failures)
    await asyncio.sleep(0)
    meter = CallMeter()
    await limiter.run(provider, meter)
    assert meter.queue_s > 0.1
    await asyncio.gather(*early)


async def test_the_wait_that_the_provider_asks_for_is_kept():
    provider, limiter, meter = Provider(), limiter_of(), CallMeter()
    provider.failures = [refusal(retry_after_s=0.15)]
    await limiter.run(provider, meter)
    assert 0.15 <= meter.queue_s < 1


async def test_new_samples_wait_while_calls_queue_and_all_pass_in_the_end():
    provider, limiter = Provider(), limiter_of(4)
    await limiter.room()
    provider.gate = asyncio.Event()
    calls = [asyncio.create_task(limiter.run(provider, CallMeter())) for _ in range(6)]
    await asyncio.sleep(0)
    samples = [asyncio.create_task(limiter.room()) for _ in range(50)]
    await asyncio.sleep(0.01)
    assert not any(sample.done() for sample in samples)
    samples[7].cancel()
    provider.gate.set()
    done = await asyncio.wait_for(asyncio.gather(*samples, return_exceptions=True), 5)
    assert sum(result is None for result in done) == 49
    await asyncio.gather(*calls)


async def test_samples_held_back_by_a_pause_pass_when_it_is_over():
    provider, limiter = Provider(), limiter_of(4)
    provider.failures = [refusal(retry_after_s=0.1) for _ in range(3)]
    calls = [asyncio.create_task(limiter.run(provider, CallMeter())) for _ in range(3)]
    await until(lambda: limiter.congested)
    for call in calls:
        call.cancel()
    await asyncio.wait_for(asyncio.gather(*(limiter.room() for _ in range(5))), 5)


async def test_a_cancelled_waiter_leaves_no_slot_behind():
    provider, limiter = Provider(), limiter_of(1)
    provider.gate = asyncio.Event()
    running = asyncio.create_task(limiter.run(provider, CallMeter()))
    meters = [CallMeter() for _ in range(3)]
    waiting = [asyncio.create_task(limiter.run(provider, meter)) for meter in meters]
    await asyncio.sleep(0.01)
    assert limiter.waiting == 3
    waiting[0].cancel()
    provider.gate.set()
    await running
    waiting[1].cancel()  # perhaps admitted in this very moment
    await asyncio.gather(*waiting, return_exceptions=True)
    assert limiter.in_flight == limiter.waiting == 0
    assert meters[0].queued, "its record says that it never got its turn"
    assert await limiter.run(provider, CallMeter()) == "ok"


async def test_a_cancelled_call_gives_its_slot_back():
    provider, limiter = Provider(), limiter_of(1)
    provider.gate = asyncio.Event()
    running = asyncio.create_task(limiter.run(provider, CallMeter()))
    next_one = asyncio.create_task(limiter.run(provider, CallMeter()))
    await asyncio.sleep(0.01)
    running.cancel()
    provider.gate.set()
    assert await asyncio.wait_for(next_one, 5) == "ok"


async def test_a_call_cancelled_between_two_attempts_is_seen_as_waiting():
    provider, limiter, meter = Provider(), limiter_of(), CallMeter()
    provider.failures = [refusal(retry_after_s=60)]
    task = asyncio.create_task(limiter.run(provider, meter))
    await until(lambda: meter.queued)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert meter.queued
    assert limiter.in_flight == 0
