"""What a call costs, by LiteLLM's bundled price list, read without importing LiteLLM.

    cost = (input - cached - cache_write) + cached + cache_write + output

each part at its own rate. What is not in the list is unknown: None, never zero.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from osmosis.evaluation.gateway.chat import Usage

PRICE_FILE = "model_prices_and_context_window_backup.json"
PROVIDER_FILE = "provider_endpoints_support_backup.json"
TIER = re.compile(r"^input_cost_per_token_above_(\d+)k_tokens$")


@dataclass(frozen=True)
class Rates:
    """US dollars per token. ``above`` is the prompt size from which these rates hold."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    above: int = 0


@dataclass(frozen=True)
class Price:
    """The rates of one model, dearest prompt size first."""

    tiers: tuple[Rates, ...]

    def cost_usd(self, usage: Usage) -> float | None:
        """The price of one call; None when the provider reported no token counts."""
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return None
        prompt = usage.prompt_tokens
        cached = min(usage.cached_tokens or 0, prompt)
        written = min(usage.cache_write_tokens or 0, prompt - cached)
        rates = next(rates for rates in self.tiers if prompt > rates.above or not rates.above)
        return (
            (prompt - cached - written) * rates.input
            + cached * rates.cache_read
            + written * rates.cache_write
            + usage.completion_tokens * rates.output
        )

    def describe(self) -> dict[str, float]:
        base = self.tiers[-1]
        return {
            "input_usd_per_million_tokens": round(base.input * 1e6, 6),
            "output_usd_per_million_tokens": round(base.output * 1e6, 6),
        }


async def price_of(name: str | None) -> Price | None:
    """The price of ``provider/model``, or None. The list is read in a thread."""
    return None if name is None else await asyncio.to_thread(_lookup, name)


async def known_providers() -> frozenset[str]:
    """Every provider prefix that LiteLLM knows; empty when LiteLLM is not installed."""
    return await asyncio.to_thread(_provider_names)


def model_provider(name: str) -> str | None:
    """The provider of a bare model name such as ``gpt-5-mini``, by the price list."""
    entry = _price_list().get(name)
    provider = entry.get("litellm_provider") if isinstance(entry, dict) else None
    return provider if isinstance(provider, str) else None


@lru_cache(maxsize=64)
def _lookup(name: str) -> Price | None:
    prices = _price_list()
    provider, _, model = name.partition("/")
    entry = prices.get(name)
    if entry is None:
        entry = prices.get(model)
        if entry is None or not str(entry.get("litellm_provider", "")).startswith(provider):
            return None
    return _price(entry, free=name.endswith(":free"))


def _price(entry: dict[str, Any], *, free: bool) -> Price | None:
    base = _rates(entry, "", 0)
    if base is None or (base.input == 0 and base.output == 0 and not free):
        return None  # the list writes 0 where it does not know
    tiers = [base]
    for key in entry:
        match = TIER.match(key)
        if match:
            tier = _rates(entry, f"_above_{match[1]}k_tokens", int(match[1]) * 1000)
            if tier is not None:
                tiers.append(tier)
    return Price(tuple(sorted(tiers, key=lambda rates: -rates.above)))


def _rates(entry: dict[str, Any], suffix: str, above: int) -> Rates | None:
    def rate(key: str) -> float | None:
        value = entry.get(key + suffix, entry.get(key))
        return float(value) if isinstance(value, int | float) else None

    price_in, price_out = rate("input_cost_per_token"), rate("output_cost_per_token")
    if price_in is None or price_out is None:
        return None
    read = rate("cache_read_input_token_cost")
    write = rate("cache_creation_input_token_cost")
    return Rates(
        input=price_in,
        output=price_out,
        cache_read=price_in if read is None else read,
        cache_write=price_in if write is None else write,
        above=above,
    )


def _price_list() -> dict[str, Any]:
    """Parsed anew each time (25 ms): kept, it would hold 30 MB for a handful of look-ups."""
    return _bundled(PRICE_FILE)


@lru_cache(maxsize=1)
def _provider_names() -> frozenset[str]:
    names = set(_bundled(PROVIDER_FILE).get("providers", {}))
    return frozenset(name for name in names if "/" not in name)


def _bundled(name: str) -> dict[str, Any]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    try:
        return orjson.loads((Path(spec.origin).parent / name).read_bytes())
    except (OSError, ValueError):
        return {}
