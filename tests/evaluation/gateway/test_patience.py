"""A model that thinks for long in silence: no layer on the way cuts it off by itself."""

from __future__ import annotations

import asyncio

from osmosis.rollout import call_model
from osmosis.rollout.context import RolloutContext
from osmosis.rollout.model import close_sessions
from tests.evaluation.gateway.upstream import HELLO, completion, says, until

SILENCE_S = 20 * 60
STEP_S = 30


async def test_twenty_silent_minutes_are_waited_for_by_client_gateway_and_upstream_link(
    make_bench, upstream
):
    """The loop's own clock is put forward, so every timer of every layer on it comes due."""
    gate = asyncio.Event()

    async def thinks(request, sent):
        await gate.wait()
        return await says(completion("at last"))(request, sent)

    upstream.answers = [thinks]
    bench = await make_bench(advanced={"max_retries": 0})
    session = bench.session
    context = RolloutContext(
        chat_completions_url=session.chat_completions_url,
        api_key=session.api_key,
        rollout_id=session.rollout_id,
    )
    loop = asyncio.get_running_loop()
    real, passed_s = loop.time, 0.0
    with context:
        call = asyncio.create_task(call_model(HELLO))
        try:
            await until(lambda: upstream.in_flight == 1)
            loop.time = lambda: real() + passed_s
            while passed_s < SILENCE_S:
                passed_s += STEP_S
                for _ in range(5):
                    await asyncio.sleep(0)
                assert not call.done()
            gate.set()
            message = await call
        finally:
            loop.time = real
            call.cancel()
            await close_sessions()
    assert message["content"] == "at last"
    assert upstream.hits == 1, "asked once, and never again"
    assert session.calls[0].error_kind is None
