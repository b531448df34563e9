"""From the judge's name to a link to it: provider, address, key, time limit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from osmosis.evaluation.gateway.litellm_adapter import CREDENTIALS, litellm_model
from osmosis.evaluation.gateway.model import Model
from osmosis.evaluation.gateway.prices import known_providers
from osmosis.evaluation.gateway.providers import PROVIDERS, SCRIPTED_PREFIX
from osmosis.evaluation.gateway.resolve import compatible_model
from osmosis.evaluation.gateway.scripted import ScriptedModel
from osmosis.evaluation.limits import CallLimiter
from osmosis.rubric.errors import MissingAPIKeyError, ModelNotFoundError
from osmosis.rubric.own_link import OwnLink
from osmosis.wire.errors import RunFailed, did_you_mean

DEFAULT_TIMEOUT_S = 30.0
TIMEOUTS_S: Mapping[str, float] = {
    "xai": 45.0,
    "gemini": 45.0,
    "cerebras": 60.0,
    "openrouter": 60.0,
    "xai/grok-4": 60.0,
}
"""Time for one answer where the caller sets none, by provider or by the start of a name."""
DEFAULT_CONCURRENCY = 8
DEFAULT_RETRIES = 4
GUESSED_PROVIDERS = (
    (re.compile(r"(gpt|o1|o3|o4)-"), "openai"),
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"gemini"), "gemini"),
    (re.compile(r"grok"), "xai"),
)
"""Whose a name without a provider is. It decides the address alone, never what a model can do."""
LITELLM_HINT = "pip install 'osmosis-platform[rubric]'"


async def open_link(
    name: str,
    *,
    variables: Mapping[str, str],
    base_url: str | None = None,
    api_key: str | None = None,
    timeout_s: float | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    max_retries: int = DEFAULT_RETRIES,
) -> OwnLink:
    """A link to the judge ``name``. Calls nobody.

    ``variables`` hold keys and addresses under the providers' usual names; ``base_url`` and
    ``api_key`` win over them. Raises MissingAPIKeyError or ModelNotFoundError.
    """
    provider, model_id = split_name(name, has_address=base_url is not None)
    model = await _model(_Wanted(name, provider, model_id, variables, base_url, api_key))
    return OwnLink(
        model,
        timeout_s=timeout_s or default_timeout_s(provider, model_id),
        limiter=CallLimiter(ceiling=concurrency, max_retries=max_retries),
    )


def split_name(name: str, *, has_address: bool = False) -> tuple[str, str]:
    """(provider, model id) of a judge's name. With an address, any name is that server's."""
    name = name.strip()
    prefix, slash, rest = name.partition("/")
    if slash and prefix and rest and (not has_address or f"{prefix}/" in _prefixes()):
        return prefix, rest
    if name and has_address:
        return "openai", name
    if not slash:
        for pattern, provider in GUESSED_PROVIDERS:
            if pattern.match(name):
                return provider, name
    raise ModelNotFoundError(
        "unknown",
        name,
        f"'{name}' names no provider. Write provider/model, for example openai/gpt-5-mini, or "
        "give the address of a server of your own (--base-url, base_url).",
    )


def default_timeout_s(provider: str, model_id: str) -> float:
    """Seconds for one answer where the caller sets none."""
    name = f"{provider}/{model_id}"
    named = [
        limit for start, limit in TIMEOUTS_S.items() if "/" in start and name.startswith(start)
    ]
    return named[0] if named else TIMEOUTS_S.get(provider, DEFAULT_TIMEOUT_S)


def _prefixes() -> set[str]:
    return {SCRIPTED_PREFIX, *(f"{name}/" for name in (*PROVIDERS, *CREDENTIALS))}


@dataclass(frozen=True)
class _Wanted:
    """A judge as it was named, with what is known of its provider."""

    name: str
    provider: str
    model_id: str
    variables: Mapping[str, str]
    base_url: str | None
    api_key: str | None

    def variables_with(self, key_name: str, base_name: str) -> dict[str, str]:
        """The variables, with what was given by itself in the place of the usual names."""
        given = dict(self.variables)
        if self.api_key:
            given[key_name] = self.api_key
        if self.base_url:
            given[base_name] = self.base_url
        return given


async def _model(wanted: _Wanted) -> Model:
    if f"{wanted.provider}/" == SCRIPTED_PREFIX:
        return ScriptedModel(wanted.name, Path.cwd(), wanted.model_id)
    provider = PROVIDERS.get(wanted.provider)
    if provider is None:
        return await _through_litellm(wanted)
    key_name, base_name = provider.key_names[0], provider.base_names[0]
    variables = wanted.variables_with(key_name, base_name)
    try:
        return compatible_model(wanted.name, provider, wanted.model_id, variables)
    except RunFailed as failed:
        if failed.kind == "model_key_missing":
            raise MissingAPIKeyError(wanted.provider, key_name) from None
        detail = f"{failed.message} Set {base_name}, or give --base-url (base_url)."
        raise ModelNotFoundError(wanted.provider, wanted.name, detail) from None


async def _through_litellm(wanted: _Wanted) -> Model:
    prefix = wanted.provider
    known = await known_providers()
    if prefix not in known:
        if known:
            near = did_you_mean(prefix, [*PROVIDERS, *known])
            detail = f"no provider is called '{prefix}'.{near}"
        else:
            detail = f"'{prefix}' is reached through LiteLLM, which is missing: {LITELLM_HINT}."
        raise ModelNotFoundError(prefix, wanted.name, detail)
    rule = CREDENTIALS.get(prefix)
    parameters = rule.parameters if rule else {}
    upper = prefix.upper()
    key_name = parameters.get("api_key", (f"{upper}_API_KEY",))[0]
    base_name = parameters.get("api_base", (f"{upper}_API_BASE",))[0]
    try:
        return litellm_model(
            f"{prefix}/{wanted.model_id}", wanted.variables_with(key_name, base_name)
        )
    except RunFailed:
        needed = rule.required if rule and rule.required else "api_key"
        raise MissingAPIKeyError(prefix, parameters.get(needed, (key_name,))[0]) from None
