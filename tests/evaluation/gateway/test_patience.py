"""A model that thinks for long in silence: no layer on the way cuts it off by itself."""

from __future__ import annotations

import asyncio

from osmosis.rollout import call_model
from osmosis.rollout.context import RolloutContext
from osmosis.rollout.model import close_sessions
from tests.evaluation.gateway.upstream import HELLO, completion, says, until
from tests.evaluation.silence import twenty_silent_minutes


async def test_twenty_silent_minutes_are_waited_for_by_client_gateway_and_upstream_link(
    make_bench, upstream
):
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
    with context:
        call = asyncio.create_task(call_model(HELLO))
        try:
            await until(lambda: upstream.in_flight == 1)
            async with twenty_silent_minutes(call):
                gate.set()
                message = await call
        finally:
            call.cancel()
            await close_sessions()
    assert message["content"] == "at last"
    assert upstream.hits == 1, "asked once, and never again"
    assert session.calls[0].error_kind is None
