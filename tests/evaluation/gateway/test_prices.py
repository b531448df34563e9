from __future__ import annotations

import subprocess
import sys

import pytest

from osmosis.evaluation.gateway.chat import Usage
from osmosis.evaluation.gateway.prices import Price, Rates, known_providers, price_of

PRICE = Price((Rates(input=10.0, output=100.0, cache_read=1.0, cache_write=20.0),))


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(100, 10), 2000),
        (Usage(100, 0, cached_tokens=40), 640),
        (Usage(100, 0, cached_tokens=100), 100),
        (Usage(100, 0, cached_tokens=400), 100),
        (Usage(100, 0, cached_tokens=60, cache_write_tokens=30), 100 + 60 + 600),
        (Usage(100, 0, cached_tokens=60, cache_write_tokens=90), 60 + 800),
        (Usage(0, 0), 0),
        (Usage(None, 10), None),
        (Usage(10, None), None),
    ],
)
def test_each_token_is_paid_once_at_its_own_rate(usage, cost):
    assert PRICE.cost_usd(usage) == cost


def test_long_prompts_have_their_own_rates():
    price = Price((Rates(2, 2, 2, 2, above=200_000), Rates(1, 1, 1, 1)))
    assert price.cost_usd(Usage(200_000, 0)) == 200_000
    assert price.cost_usd(Usage(200_001, 0)) == 400_002


def test_usage_is_read_in_the_shapes_that_providers_use():
    openai = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}
    assert Usage.of(openai) == Usage(9, 2)
    details = {**openai, "prompt_tokens_details": {"cached_tokens": 4}}
    assert Usage.of(details).cached_tokens == 4
    assert Usage.of({**openai, "prompt_cache_hit_tokens": 5}).cached_tokens == 5
    anthropic = {**openai, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 1}
    assert (Usage.of(anthropic).cached_tokens, Usage.of(anthropic).cache_write_tokens) == (1, 3)
    assert Usage.of({"prompt_tokens": -1, "completion_tokens": "7"}) == Usage()
    assert Usage.of(None) == Usage()


async def test_prices_come_from_the_bundled_list():
    price = await price_of("openai/gpt-4o-mini")
    assert price is not None
    assert price.describe() == {
        "input_usd_per_million_tokens": 0.15,
        "output_usd_per_million_tokens": 0.6,
    }
    assert await price_of("anthropic/claude-sonnet-4-5") is not None
    assert await price_of("groq/openai/gpt-oss-20b") is not None


@pytest.mark.parametrize(
    "name", [None, "openai/no-such-model", "groq/gpt-4o-mini", "ollama/llama3"]
)
async def test_what_is_not_in_the_list_is_unknown_and_not_zero(name):
    assert await price_of(name) is None


async def test_providers_of_litellm_are_known():
    assert {"anthropic", "gemini", "bedrock", "azure"} <= await known_providers()


def test_the_price_list_is_read_without_importing_litellm():
    code = (
        "import asyncio, sys; from osmosis.evaluation.gateway.prices import price_of;"
        "from osmosis.evaluation.gateway import Gateway;"
        "assert asyncio.run(price_of('openai/gpt-4o-mini'));"
        "print([m for m in ('litellm', 'openai', 'httpx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
