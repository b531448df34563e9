"""A model that the caller names, through the gateway's adapters and limiter."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from osmosis.evaluation.gateway.chat import ChatRequest, Reply, text_of
from osmosis.evaluation.gateway.failures import UpstreamFailure
from osmosis.evaluation.gateway.model import Model
from osmosis.evaluation.gateway.openai_compatible import OpenAICompatible
from osmosis.evaluation.limits import CallLimiter, CallMeter
from osmosis.rubric.links import Answer, CallFailed, refusal_of
from osmosis.rubric.request_shape import names_a_form
from osmosis.wire.errors import RunFailed

HTTP_NOT_FOUND = 404
ANSWERS_WAITED_FOR = 2
"""An answer that does not come in time is asked for once more, with twice the time."""


class OwnLink:
    """A model that the caller names, behind its limiter. ``timeout_s`` is for one answer."""

    def __init__(self, model: Model, *, timeout_s: float, limiter: CallLimiter) -> None:
        self._model = model
        self._timeout_s = timeout_s
        self._limiter = limiter
        self._prepared = False
        self.provider = model.provider
        self.model = model.path
        self.address = model.base_url
        self.secret = "" if model.scripted else model.limiter_key[1]
        """The key that is sent, to be taken out of what the provider says."""

    async def prepare(self) -> None:
        """Load what must be loaded, which takes none of an answer's time; raises RunFailed."""
        if not self._prepared:
            await self._model.prepare()
            self._prepared = True

    async def ask(self, body: Mapping[str, Any]) -> Answer:
        tries = _Tries(self._model, body, self._timeout_s)
        try:
            await self.prepare()
            reply = await self._limiter.run(tries.once, CallMeter())
        except UpstreamFailure as failure:
            message = failure.message
            if failure.status == HTTP_NOT_FOUND and isinstance(self._model, OpenAICompatible):
                message = f"{message} {await self._model.near_models()}".strip()
            raise CallFailed(failure.kind, message, failure.status) from failure
        except RunFailed as failed:  # the model could not be loaded or prepared
            raise CallFailed(failed.kind, failed.body()["message"]) from failed
        return Answer(
            text=text_of(reply.message.get("content")),
            finish_reason=reply.finish_reason,
            refusal=refusal_of(reply.message),
            prompt_tokens=reply.usage.prompt_tokens,
            completion_tokens=reply.usage.completion_tokens,
        )

    async def close(self) -> None:
        await self._model.close()


class _Tries:
    """The attempts at one answer, each with its time."""

    def __init__(self, model: Model, body: Mapping[str, Any], timeout_s: float) -> None:
        self._model, self._body, self._timeout_s = model, body, timeout_s
        self._timeouts = 0

    async def once(self) -> Reply:
        limit_s = self._timeout_s * 2**self._timeouts
        # The adapter sets the model in the body that it is given.
        chat = ChatRequest(dict(self._body), "judge", stream=False, route="judge")
        try:
            async with asyncio.timeout(limit_s):
                return await self._model.complete(chat)
        except UpstreamFailure as failure:
            # A server that cannot do a schema may say so with a 500; the same again is no help.
            failure.retryable = failure.retryable and not names_a_form(failure.message)
            raise
        except TimeoutError:
            self._timeouts += 1
            raise UpstreamFailure(
                "timeout",
                f"no answer within {limit_s:g} s",
                retryable=self._timeouts < ANSWERS_WAITED_FOR,
            ) from None
