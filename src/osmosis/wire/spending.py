"""What model calls used up, policy and judge together."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from osmosis.wire.samples import ModelCall


class Spending(BaseModel):
    """Tokens and US dollars of model calls. ``usd`` holds the costs that are known.

    Answers out of a cache or a replay used nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    tokens: int = Field(default=0, ge=0)
    usd: float = Field(default=0.0, ge=0)

    @classmethod
    def of_calls(cls, calls: Iterable[ModelCall]) -> Spending:
        tokens, usd = 0, 0.0
        for call in calls:
            if not (call.cached or call.replayed):
                tokens += (call.prompt_tokens or 0) + (call.completion_tokens or 0)
                usd += call.cost_usd or 0.0
        return cls(tokens=tokens, usd=usd)

    def __add__(self, other: Spending) -> Spending:
        return Spending(tokens=self.tokens + other.tokens, usd=self.usd + other.usd)

    def without(self, other: Spending) -> Spending:
        """What is left of it when ``other`` is taken away, never below nothing."""
        # Rounded far below a cent: sums of floats, taken apart again, leave dust.
        usd = max(0.0, round(self.usd - other.usd, 12))
        return Spending(tokens=max(0, self.tokens - other.tokens), usd=usd)
