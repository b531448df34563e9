from __future__ import annotations

import pytest

from osmosis.evaluation.gateway.litellm_adapter import LiteLLMModel
from osmosis.evaluation.gateway.openai_compatible import OpenAICompatible
from osmosis.evaluation.gateway.providers import PROVIDERS
from osmosis.evaluation.gateway.resolve import resolve
from osmosis.evaluation.gateway.scripted import ScriptedModel
from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import ModelEndpoint
from tests.evaluation.gateway.upstream import make_plan

BOX = ModelEndpoint(name="box", base_url="http://box:8000/v1", model="qwen", api_key="k")
OPEN = ModelEndpoint(name="open", base_url="http://box:9000/v1")


async def resolved(tmp_path, path, **more):
    return await resolve(path, make_plan(tmp_path, path, **more))


async def failure(tmp_path, path, **more):
    with pytest.raises(RunFailed) as caught:
        await resolved(tmp_path, path, **more)
    return caught.value


async def test_a_scripted_path_comes_first(tmp_path):
    endpoint = ModelEndpoint(name="scripted", base_url="http://box/v1")
    model = await resolved(tmp_path, "scripted/a.toml", endpoints=(endpoint,))
    assert isinstance(model, ScriptedModel)


async def test_a_named_endpoint_by_name_or_with_a_model(tmp_path):
    model = await resolved(tmp_path, "box", endpoints=(OPEN, BOX))
    assert isinstance(model, OpenAICompatible)
    assert (model.provider, model.model, model.base_url) == ("box", "qwen", "http://box:8000/v1")
    assert model.price_name is None
    model = await resolved(tmp_path, "box/org/other", endpoints=(OPEN, BOX))
    assert isinstance(model, OpenAICompatible)
    assert model.model == "org/other"


async def test_a_named_endpoint_hides_a_provider_of_the_same_name(tmp_path):
    mine = ModelEndpoint(name="openai", base_url="http://box/v1")
    model = await resolved(tmp_path, "openai/x", endpoints=(mine,))
    assert model.base_url == "http://box/v1"


async def test_keys_and_addresses_come_from_the_run_and_never_from_this_process(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "server-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://server")
    failed = await failure(tmp_path, "openai/gpt-4o")
    assert failed.kind == "model_key_missing"
    assert "OPENAI_API_KEY" in failed.message
    assert "osmosis secret set OPENAI_API_KEY" in (failed.hint or "")
    model = await resolved(tmp_path, "openai/gpt-4o", secrets={"OPENAI_API_KEY": "run-key"})
    assert model.base_url == "https://api.openai.com/v1"
    assert model.limiter_key == ("https://api.openai.com/v1", "run-key")
    assert model.price_name == "openai/gpt-4o"


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
async def test_with_a_base_of_ones_own_the_key_is_optional_and_the_price_unknown(tmp_path, name):
    model = await resolved(tmp_path, "openai/gpt-4o", env={name: "http://box:1/v1/"})
    assert model.base_url == "http://box:1/v1"
    assert model.price_name is None


@pytest.mark.parametrize("prefix", sorted(PROVIDERS))
async def test_every_provider_of_the_table_resolves_with_its_key(tmp_path, prefix):
    provider = PROVIDERS[prefix]
    variables = dict.fromkeys(provider.key_names[:1], "key")
    if provider.base_url is None:
        failed = await failure(tmp_path, f"{prefix}/m", secrets=variables)
        assert failed.kind == "model_wrong_endpoint"
        assert provider.base_names[0] in (failed.hint or "")
        variables[provider.base_names[0]] = "http://box:1/v1"
    elif provider.key_required:
        assert (await failure(tmp_path, f"{prefix}/m")).kind == "model_key_missing"
    model = await resolved(tmp_path, f"{prefix}/m", secrets=variables)
    assert isinstance(model, OpenAICompatible)
    assert model.provider == prefix


async def test_ollama_takes_the_servers_root(tmp_path):
    model = await resolved(tmp_path, "ollama_chat/x", env={"OLLAMA_API_BASE": "http://box:1"})
    assert model.base_url == "http://box:1/v1"


async def test_a_password_in_an_address_is_not_shown(tmp_path):
    model = await resolved(tmp_path, "openai/x", env={"OPENAI_BASE_URL": "http://u:p@box/v1"})
    assert model.base_url == "http://box/v1"


async def test_other_providers_go_to_litellm_with_their_key(tmp_path):
    failed = await failure(tmp_path, "anthropic/claude-sonnet-4-5")
    assert (failed.kind, "ANTHROPIC_API_KEY" in failed.message) == ("model_key_missing", True)
    model = await resolved(
        tmp_path, "anthropic/claude-sonnet-4-5", secrets={"ANTHROPIC_API_KEY": "k"}
    )
    assert isinstance(model, LiteLLMModel)
    assert model.base_url == "https://api.anthropic.com"
    failed = await failure(tmp_path, "bedrock/anthropic.claude", secrets={})
    assert "AWS_ACCESS_KEY_ID" in failed.message
    failed = await failure(tmp_path, "replicate/llama")
    assert "REPLICATE_API_KEY" in failed.message


@pytest.mark.parametrize("path", ["gpt-4o-mini", "openai/", "/x", "nothing"])
async def test_a_name_without_a_provider_shows_the_form(tmp_path, path):
    failed = await failure(tmp_path, path)
    assert failed.kind == "model_name_invalid"
    assert "provider/model" in (failed.hint or "")


async def test_near_names_are_suggested(tmp_path):
    assert "'openai/gpt-4o-mini'" in (await failure(tmp_path, "gpt-4o-mini")).message
    assert "'openai'" in (await failure(tmp_path, "opnai/gpt-4o")).message
    assert "'box'" in (await failure(tmp_path, "bxo", endpoints=(BOX,))).message


async def test_an_address_that_is_none_is_refused(tmp_path):
    failed = await failure(tmp_path, "openai/x", env={"OPENAI_BASE_URL": "box:8000"})
    assert failed.kind == "model_wrong_endpoint"


async def test_a_full_chat_address_is_cut_to_its_base(tmp_path):
    env = {"OPENAI_BASE_URL": "http://box/v1/chat/completions"}
    assert (await resolved(tmp_path, "openai/x", env=env)).base_url == "http://box/v1"
