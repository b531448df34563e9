from __future__ import annotations

import pytest

from osmosis.rubric.errors import MissingAPIKeyError, ModelNotFoundError
from osmosis.rubric.models import default_timeout_s, open_link, split_name

KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "xai": "XAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "cerebras": "CEREBRAS_API_KEY",
    "azure": "AZURE_API_KEY",
    "bedrock": "AWS_ACCESS_KEY_ID",
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS",
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai/gpt-5-mini", ("openai", "gpt-5-mini")),
        ("openrouter/meta/llama", ("openrouter", "meta/llama")),
        ("gpt-4o", ("openai", "gpt-4o")),
        ("o3-mini", ("openai", "o3-mini")),
        ("claude-sonnet-4", ("anthropic", "claude-sonnet-4")),
        ("gemini-2.5-pro", ("gemini", "gemini-2.5-pro")),
        ("grok-4", ("xai", "grok-4")),
    ],
)
def test_a_name_tells_its_provider(name: str, expected: tuple[str, str]):
    assert split_name(name) == expected


@pytest.mark.parametrize("name", ["smollm2", "gpt", "", "/x", "x/"])
def test_a_name_without_a_provider_is_refused(name: str):
    with pytest.raises(ModelNotFoundError, match="provider/model"):
        split_name(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("smollm2", ("openai", "smollm2")),
        ("HuggingFaceTB/SmolLM2", ("openai", "HuggingFaceTB/SmolLM2")),
        ("openai/smollm2", ("openai", "smollm2")),
        ("hosted_vllm/a/b", ("hosted_vllm", "a/b")),
    ],
)
def test_any_name_will_do_for_a_server_of_ones_own(name: str, expected: tuple[str, str]):
    assert split_name(name, has_address=True) == expected


@pytest.mark.parametrize("provider", KEYS)
async def test_a_missing_key_is_named(provider: str):
    with pytest.raises(MissingAPIKeyError, match=KEYS[provider]) as missing:
        await open_link(f"{provider}/m", variables={})
    assert missing.value.variable == KEYS[provider]


async def test_the_key_comes_from_the_variable_unless_it_is_given():
    link = await open_link("openai/m", variables={"OPENAI_API_KEY": "from-env"})
    assert link._model.limiter_key[1] == "from-env"
    link = await open_link("openai/m", variables={"OPENAI_API_KEY": "from-env"}, api_key="given")
    assert link._model.limiter_key[1] == "given"
    assert link.address == "https://api.openai.com/v1"


async def test_an_address_comes_from_the_variable_unless_it_is_given():
    variables = {"OPENAI_BASE_URL": "http://user:secret@127.0.0.1:1/v1"}
    link = await open_link("openai/m", variables=variables)
    assert link.address == "http://127.0.0.1:1/v1"
    link = await open_link("m", variables=variables, base_url="http://127.0.0.1:2/v1/")
    assert link.address == "http://127.0.0.1:2/v1"


async def test_wrong_addresses_and_providers_are_refused_before_any_call():
    with pytest.raises(ModelNotFoundError, match="not a web address"):
        await open_link("openai/m", variables={}, base_url="127.0.0.1:8000")
    with pytest.raises(ModelNotFoundError, match="--base-url"):
        await open_link("hosted_vllm/m", variables={})
    with pytest.raises(ModelNotFoundError, match="Did you mean 'openai'"):
        await open_link("opnai/m", variables={})


def test_the_time_limits_are_the_documented_ones():
    documented = {
        "openai/gpt-5": 30,
        "xai/grok-3": 45,
        "xai/grok-4-fast": 60,
        "gemini/g": 45,
        "cerebras/c": 60,
        "openrouter/o/p": 60,
    }
    for name, seconds in documented.items():
        assert default_timeout_s(*name.split("/", 1)) == seconds
