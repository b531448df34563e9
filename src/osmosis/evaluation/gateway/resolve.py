"""From a ``model_path`` to the adapter that serves it.

In this order: ``scripted/FILE``; ``replay/RUN``; a named endpoint, exactly or as
``NAME/model-id``; a provider of the table; any other provider that LiteLLM knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from osmosis.evaluation.gateway.litellm_adapter import litellm_model
from osmosis.evaluation.gateway.model import Model
from osmosis.evaluation.gateway.openai_compatible import OpenAICompatible
from osmosis.evaluation.gateway.prices import known_providers, model_provider
from osmosis.evaluation.gateway.providers import (
    PROVIDERS,
    REPLAY_PREFIX,
    SCRIPTED_PREFIX,
    Provider,
)
from osmosis.evaluation.gateway.replay import ReplayModel
from osmosis.evaluation.gateway.scripted import ScriptedModel
from osmosis.evaluation.plan import EvaluationPlan
from osmosis.wire.errors import RunFailed, did_you_mean
from osmosis.wire.runner import ModelEndpoint

FORM = "Model names have the form provider/model, for example openai/gpt-5-mini."


async def resolve(path: str, plan: EvaluationPlan) -> Model:
    """The adapter for ``path``, or RunFailed with the reason. Calls nobody."""
    if path.startswith(SCRIPTED_PREFIX):
        return ScriptedModel(path, plan.code_dir, path.removeprefix(SCRIPTED_PREFIX))
    if path.startswith(REPLAY_PREFIX):
        return _replay(path, plan)
    endpoint, rest = _named_endpoint(path, plan.endpoints)
    if endpoint is not None:
        return OpenAICompatible(
            provider=endpoint.name,
            path=path,
            base_url=_checked_base(endpoint.base_url, f"the endpoint '{endpoint.name}'"),
            model=rest or endpoint.model,
            api_key=endpoint.api_key,
        )
    prefix, slash, model = path.partition("/")
    if not slash or not prefix or not model:
        raise await _not_a_name(path, plan)
    provider = PROVIDERS.get(prefix)
    if provider is not None:
        return compatible_model(path, provider, model, {**plan.env, **plan.secrets})
    if prefix in await known_providers():
        return litellm_model(path, {**plan.env, **plan.secrets})
    names = [*PROVIDERS, *await known_providers(), *(item.name for item in plan.endpoints)]
    raise RunFailed(
        "model_name_invalid",
        f"model_path '{path}': no provider or endpoint is called '{prefix}'."
        f"{did_you_mean(prefix, names)}",
        hint=f"{FORM} A server of your own is added with 'osmosis model endpoint add'.",
    )


def compatible_model(
    path: str, provider: Provider, model: str, variables: Mapping[str, str]
) -> OpenAICompatible:
    """The model of a provider of the table, its key and address taken from ``variables``."""
    key = provider.key(variables)
    custom = provider.custom_base(variables)
    base = custom or provider.base_url
    if base is None:
        name = provider.base_names[0]
        raise RunFailed(
            "model_wrong_endpoint",
            f"model_path '{path}': '{provider.prefix}' needs the address of a server, and the run "
            "sets none.",
            hint=f'Add {name} = "http://HOST:PORT/v1" to [env], or register the server with '
            "'osmosis model endpoint add'.",
        )
    if key is None and provider.key_required and custom is None:
        raise key_missing(path, provider.key_names[0])
    if "/" not in model:
        model = provider.model_prefix + model
    return OpenAICompatible(
        provider=provider.prefix,
        path=path,
        base_url=_checked_base(base, f"'{provider.prefix}'"),
        model=model,
        api_key=key,
        price_name=path if custom is None and provider.priced else None,
        stream_options=provider.stream_options,
    )


def _replay(path: str, plan: EvaluationPlan) -> Model:
    name = path.removeprefix(REPLAY_PREFIX)
    for source in plan.replays:
        if source.name == name:
            return ReplayModel(path, source, plan.work_dir)
    raise RunFailed(
        "replay_unavailable",
        f"model_path '{path}': there is no run '{name}' here to replay.",
        hint="'osmosis eval list' shows the runs of the workspace.",
    )


def key_missing(path: str, name: str) -> RunFailed:
    return RunFailed(
        "model_key_missing",
        f"model_path '{path}' needs the API key {name}, and the run has none.",
        hint=f"Store it with 'osmosis secret set {name}' and add \"{name}\" to [secrets] required.",
    )


def _named_endpoint(
    path: str, endpoints: tuple[ModelEndpoint, ...]
) -> tuple[ModelEndpoint | None, str | None]:
    for endpoint in endpoints:
        if path == endpoint.name:
            return endpoint, None
    for endpoint in endpoints:
        if path.startswith(f"{endpoint.name}/") and len(path) > len(endpoint.name) + 1:
            return endpoint, path[len(endpoint.name) + 1 :]
    return None, None


def _checked_base(base_url: str, whose: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RunFailed(
            "model_wrong_endpoint",
            f"The base URL of {whose} is not a web address.",
            hint="It must look like http://HOST:PORT/v1.",
        )
    if parts.path.rstrip("/").endswith("/chat/completions"):
        return base_url[: base_url.rindex("/chat/completions")]
    return base_url


async def _not_a_name(path: str, plan: EvaluationPlan) -> RunFailed:
    names = [endpoint.name for endpoint in plan.endpoints]
    provider = model_provider(path)
    suggestion = did_you_mean(path, names)
    if not suggestion and provider in PROVIDERS:
        suggestion = f" Did you mean '{provider}/{path}'?"
    registered = f" Registered endpoints: {', '.join(names)}." if names else ""
    return RunFailed(
        "model_name_invalid",
        f"model_path '{path}' names neither a provider/model nor a registered endpoint."
        f"{suggestion}",
        hint=FORM + registered,
    )
