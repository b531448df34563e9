"""The OpenAI-compatible providers: where they live and which variables name key and address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Provider:
    """One row of the table. ``base_url`` None means that the run must name an address."""

    prefix: str
    base_url: str | None
    key_names: tuple[str, ...]
    base_names: tuple[str, ...] = ()
    key_required: bool = True
    completes_base: bool = False
    """The usual variable holds the server's root: ``/v1`` is added when missing."""
    stream_options: bool = True
    """Whether ``stream_options`` may be sent; without it usage comes by itself."""
    model_prefix: str = ""
    """Put before a model name without a slash."""
    priced: bool = True

    def key(self, variables: Mapping[str, str]) -> str | None:
        """The first non-empty credential among the provider's usual variables."""
        return first_set(variables, self.key_names)

    def custom_base(self, variables: Mapping[str, str]) -> str | None:
        """The address that the run sets, if it does."""
        base = first_set(variables, self.base_names)
        if base is None:
            return None
        base = base.rstrip("/")
        if self.completes_base and not base.endswith("/v1"):
            base += "/v1"
        return base


def first_set(variables: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = (variables.get(name) or "").strip()
        if value:
            return value
    return None


def _hosted(prefix: str, base_url: str, *more_keys: str, bases: tuple[str, ...] = ()) -> Provider:
    upper = prefix.upper()
    return Provider(
        prefix,
        base_url,
        (f"{upper}_API_KEY", *more_keys),
        (*bases, f"{upper}_API_BASE", f"{upper}_BASE_URL"),
    )


def _local(prefix: str, base_url: str | None, *, upper: str | None = None) -> Provider:
    upper = upper or prefix.upper()
    return Provider(
        prefix,
        base_url,
        (f"{upper}_API_KEY",),
        (f"{upper}_API_BASE", f"{upper}_BASE_URL"),
        key_required=False,
        priced=False,
        completes_base=upper == "OLLAMA",
    )


_TABLE = (
    Provider(
        "openai",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ),
    _local("hosted_vllm", None),
    _hosted("openrouter", "https://openrouter.ai/api/v1", "OR_API_KEY"),
    _hosted("groq", "https://api.groq.com/openai/v1"),
    _hosted("together_ai", "https://api.together.ai/v1", "TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),
    _hosted("deepseek", "https://api.deepseek.com/beta"),
    _local("ollama_chat", "http://localhost:11434/v1", upper="OLLAMA"),
    _local("ollama", "http://localhost:11434/v1"),
    _hosted("xai", "https://api.x.ai/v1"),
    Provider(
        "mistral",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        ("MISTRAL_API_BASE", "MISTRAL_BASE_URL"),
        stream_options=False,
    ),
    Provider(
        "fireworks_ai",
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
        ("FIREWORKS_AI_API_BASE", "FIREWORKS_API_BASE"),
        model_prefix="accounts/fireworks/models/",
    ),
    _hosted("cerebras", "https://api.cerebras.ai/v1"),
    _hosted("perplexity", "https://api.perplexity.ai", "PERPLEXITYAI_API_KEY"),
    _hosted("nvidia_nim", "https://integrate.api.nvidia.com/v1"),
    _hosted("deepinfra", "https://api.deepinfra.com/v1/openai"),
    _hosted("sambanova", "https://api.sambanova.ai/v1"),
    _hosted("moonshot", "https://api.moonshot.ai/v1"),
    _hosted("dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    _hosted("novita", "https://api.novita.ai/v3/openai"),
    _hosted("nebius", "https://api.studio.nebius.ai/v1"),
    _hosted("hyperbolic", "https://api.hyperbolic.xyz/v1"),
    _local("lm_studio", "http://localhost:1234/v1"),
    _local("llamafile", "http://127.0.0.1:8080/v1"),
    _local("litellm_proxy", None),
    _local("openai_like", None),
)

PROVIDERS: Mapping[str, Provider] = {provider.prefix: provider for provider in _TABLE}

SCRIPTED_PREFIX = "scripted/"
REPLAY_PREFIX = "replay/"


def needs_litellm(path: str, endpoint_names: Collection[str]) -> bool:
    """Whether ``resolve`` finds LiteLLM's adapter for ``path``, if it finds anything."""
    prefix, _, model = path.partition("/")
    return (
        bool(model)
        and not path.startswith((SCRIPTED_PREFIX, REPLAY_PREFIX))
        and prefix not in PROVIDERS
        and prefix not in endpoint_names
    )
