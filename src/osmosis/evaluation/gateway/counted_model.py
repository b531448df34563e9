"""A model whose requests are counted before they leave, so that a kill cannot hide one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from osmosis.evaluation.gateway.chat import ChatRequest, Reply
from osmosis.evaluation.gateway.event_stream import EventStream
from osmosis.evaluation.gateway.model import Model
from osmosis.evaluation.limits import CallFailure

OnUpstream = Callable[[int], None]
"""Told 1 before a request is sent, and -1 when it never reached the provider."""

T = TypeVar("T")


class CountedModel:
    """``model``, with every attempt told to ``on_upstream``. Everything else is the model's own."""

    def __init__(self, model: Model, on_upstream: OnUpstream) -> None:
        self._model = model
        self._on_upstream = on_upstream
        self.provider = model.provider
        self.path = model.path
        self.base_url = model.base_url
        self.scripted = model.scripted
        self.limiter_key = model.limiter_key
        self.identity = model.identity
        self.price_name = model.price_name

    async def prepare(self) -> object:
        return await self._model.prepare()

    async def complete(self, chat: ChatRequest) -> Reply:
        return await self._counted(self._model.complete(chat))

    async def stream(self, chat: ChatRequest, out: EventStream) -> Reply:
        return await self._counted(self._model.stream(chat, out))

    async def close(self) -> None:
        await self._model.close()

    async def _counted(self, attempt: Awaitable[T]) -> T:
        self._on_upstream(1)
        try:
            return await attempt
        except CallFailure as failure:
            if not failure.reached:
                self._on_upstream(-1)
            raise
