"""What every adapter offers the gateway: one resolved model that answers one attempt at a time."""

from __future__ import annotations

from typing import Protocol

from osmosis.evaluation.gateway.chat import ChatRequest, Reply
from osmosis.evaluation.gateway.event_stream import EventStream


class Model(Protocol):
    """One model of a run. Attempts raise ``UpstreamFailure``; retries are the limiter's."""

    @property
    def provider(self) -> str:
        """Name of the provider or of the named endpoint."""
        ...

    @property
    def path(self) -> str:
        """The name as the run's config spells it."""
        ...

    @property
    def base_url(self) -> str | None:
        """Where calls go, without credentials; None when the adapter does not say."""
        ...

    @property
    def scripted(self) -> bool: ...

    @property
    def limiter_key(self) -> tuple[str, str]:
        """Calls with the same key (address, credential) share one limiter."""
        ...

    @property
    def identity(self) -> tuple[str, ...] | None:
        """What tells its answers from another model's: provider, address, model, never a
        credential. None when no provider is behind it. Known once it is prepared."""
        ...

    @property
    def price_name(self) -> str | None:
        """Name to look up in the price list; None when the price cannot be known."""
        ...

    async def prepare(self) -> object:
        """Whatever must happen once before the first call; raises RunFailed."""
        ...

    async def complete(self, chat: ChatRequest) -> Reply:
        """One attempt at a whole answer."""
        ...

    async def stream(self, chat: ChatRequest, out: EventStream) -> Reply:
        """One attempt that writes the answer to ``out`` as it comes."""
        ...

    async def close(self) -> None: ...
