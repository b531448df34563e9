"""Adapter 2: every provider that does not speak OpenAI's API, through LiteLLM.

LiteLLM costs 3 s and 190 MB to import, so it is loaded in a thread when the first such model is
prepared, unless the process was forked from one that had :func:`preload` called. Its own retries,
telemetry and price download are off. Credentials are passed in each call; provider variables that
the run did not declare are taken out of this process's environment first, so that LiteLLM cannot
fall back on somebody else's.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache, wraps
from types import ModuleType
from typing import Any

from osmosis.evaluation.gateway.chat import ChatRequest, Reply
from osmosis.evaluation.gateway.event_stream import EventStream
from osmosis.evaluation.gateway.failures import (
    UpstreamFailure,
    may_repeat,
)
from osmosis.evaluation.gateway.link import link_failure
from osmosis.evaluation.gateway.provider_errors import kind_of_error
from osmosis.evaluation.gateway.providers import first_set
from osmosis.evaluation.gateway.retry_after import retry_after_s
from osmosis.evaluation.gateway.synthetic_stream import tell
from osmosis.wire.errors import RunFailed

PROVIDER_VARIABLE = re.compile(
    r"^(AWS|AZURE|GOOGLE|VERTEX|VERTEXAI|GEMINI|ANTHROPIC|OPENAI|COHERE|HUGGINGFACE|WATSONX|"
    r"DATABRICKS|SNOWFLAKE|OCI|SAP|LITELLM)_|_(API_KEY|API_BASE|BASE_URL|API_VERSION|API_TOKEN)$"
)
SETTINGS: Mapping[str, Any] = {
    "telemetry": False,
    "suppress_debug_info": True,
    "drop_params": False,
    "num_retries": 0,
}
KIND_BY_CLASS: Mapping[str, str] = {
    "ContextWindowExceededError": "context_length",
    "ContentPolicyViolationError": "content_filter",
    "BudgetExceededError": "quota",
}
"""LiteLLM's classes that say more than their status."""
PLACES = ("api_version", "aws_region_name", "vertex_project", "vertex_location")
"""Call parameters that say, beside the address, which model answers."""
SWITCH_INTERVAL_S = 0.0005
"""LiteLLM prepares each call in a thread, which a busy event loop lets wait for ten times as long
by default."""
MODEL_LOOK_UP = "get_model_info_helper"
MODEL_ABILITY = "_supports_model_capability"
REMEMBERED = 1024
LOADED_BY_A_FIRST_CALL = (
    "boto3",
    "fastapi",
    "jiter",
    "litellm._service_logger",
    "litellm.integrations.generic_api.generic_api_callback",
    "litellm.integrations.prometheus_services",
    "litellm.litellm_core_utils.default_encoding",
    "litellm.llms.anthropic.completion.transformation",
    "litellm.llms.azure.chat.gpt_reasoning_transformation",
    "litellm.llms.azure.chat.gpt_transformation",
    "litellm.llms.azure.chat.o_series_transformation",
    "litellm.llms.bedrock.chat.chat_completions.transformation",
    "litellm.llms.cohere.chat.transformation",
    "litellm.llms.cohere.chat.v2_transformation",
    "litellm.llms.edenai.chat.transformation",
    "litellm.llms.fal_ai.cost_calculator",
    "litellm.llms.gemini.chat.transformation",
    "litellm.llms.github_copilot.authenticator",
    "litellm.llms.litellm_proxy.chat.transformation",
    "litellm.llms.openai_like.dynamic_config",
    "litellm.llms.vertex_ai.context_caching.vertex_ai_context_caching",
    "litellm.proxy._types",
    "litellm.proxy.guardrails.exception_utils",
    "litellm.types.integrations.prometheus",
    "litellm.types.integrations.slack_alerting",
)
"""What LiteLLM puts off until it is called, or fails, for the first time: up to 0.4 s."""
CALL_TIMEOUT_S = 24 * 3600.0
"""LiteLLM insists on a limit of its own; the sample's deadline comes long before."""


@dataclass(frozen=True)
class Credentials:
    """How one provider's call parameters are filled from variables: parameter -> names."""

    parameters: Mapping[str, tuple[str, ...]]
    required: str | None
    """The parameter without which the provider cannot be called."""
    base_url: str | None = None


_AWS = Credentials(
    {
        "aws_access_key_id": ("AWS_ACCESS_KEY_ID",),
        "aws_secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
        "aws_session_token": ("AWS_SESSION_TOKEN",),
        "aws_region_name": ("AWS_REGION_NAME", "AWS_REGION", "AWS_DEFAULT_REGION"),
        "api_key": ("AWS_BEARER_TOKEN_BEDROCK",),
        "api_base": ("AWS_BEDROCK_RUNTIME_ENDPOINT",),
    },
    required="aws_access_key_id",
)
_VERTEX = Credentials(
    {
        "vertex_credentials": ("GOOGLE_APPLICATION_CREDENTIALS", "VERTEXAI_CREDENTIALS"),
        "vertex_project": ("VERTEXAI_PROJECT", "GOOGLE_CLOUD_PROJECT"),
        "vertex_location": ("VERTEXAI_LOCATION", "GOOGLE_CLOUD_LOCATION"),
    },
    required="vertex_credentials",
)
CREDENTIALS: Mapping[str, Credentials] = {
    "anthropic": Credentials(
        {
            "api_key": ("ANTHROPIC_API_KEY",),
            "api_base": ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
        },
        required="api_key",
        base_url="https://api.anthropic.com",
    ),
    "gemini": Credentials(
        {"api_key": ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "api_base": ("GEMINI_API_BASE",)},
        required="api_key",
    ),
    "azure": Credentials(
        {
            "api_key": ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"),
            "api_base": ("AZURE_API_BASE",),
            "api_version": ("AZURE_API_VERSION",),
        },
        required="api_key",
    ),
    "bedrock": _AWS,
    "sagemaker": _AWS,
    "sagemaker_chat": _AWS,
    "vertex_ai": _VERTEX,
    "cohere": Credentials(
        {"api_key": ("COHERE_API_KEY", "CO_API_KEY"), "api_base": ("COHERE_API_BASE",)},
        required="api_key",
    ),
    "huggingface": Credentials(
        {"api_key": ("HF_TOKEN", "HUGGINGFACE_API_KEY"), "api_base": ("HUGGINGFACE_API_BASE",)},
        required="api_key",
    ),
}


def litellm_model(path: str, variables: Mapping[str, str]) -> LiteLLMModel:
    """The model with its credentials taken from the run's variables, or RunFailed."""
    provider = path.partition("/")[0]
    upper = provider.upper()
    rule = CREDENTIALS.get(provider) or Credentials(
        {
            "api_key": (f"{upper}_API_KEY",),
            "api_base": (f"{upper}_API_BASE", f"{upper}_BASE_URL"),
        },
        required="api_key",
    )
    values = {
        parameter: value
        for parameter, names in rule.parameters.items()
        if (value := first_set(variables, names)) is not None
    }
    custom_base = "api_base" in values
    needed = rule.required
    if needed and needed not in values and not custom_base and "api_key" not in values:
        name = rule.parameters[needed][0]
        raise RunFailed(
            "model_key_missing",
            f"model_path '{path}' needs {name}, and the run has none.",
            hint=f"Store it with 'osmosis secret set {name}' and add \"{name}\" to "
            "[secrets] required.",
        )
    if rule.base_url is not None:
        values.setdefault("api_base", rule.base_url)
    return LiteLLMModel(path, provider, values, variables, custom_base=custom_base)


class LiteLLMModel:
    """One model behind LiteLLM. Upstream calls never stream; events are made from the answer."""

    scripted = False

    def __init__(
        self,
        path: str,
        provider: str,
        credentials: Mapping[str, str],
        variables: Mapping[str, str],
        *,
        custom_base: bool,
    ) -> None:
        self.path = path
        self.provider = provider
        self.base_url = credentials.get("api_base")
        self.price_name = None if custom_base and provider != "azure" else path
        secret = credentials.get("api_key") or credentials.get("aws_access_key_id") or ""
        self.limiter_key = (self.base_url or provider, secret)
        self._credentials = dict(credentials)
        if custom_base:
            # Some of LiteLLM's providers insist on a key even where the server wants none.
            self._credentials.setdefault("api_key", "none")
        self._variables = variables
        self._litellm: ModuleType | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        places = (self._credentials.get(name, "") for name in PLACES)
        return (self.provider, self.base_url or "", self.path, *places)

    async def prepare(self) -> ModuleType:
        isolate_environment(self._variables)
        self._litellm = await asyncio.to_thread(_load)
        return self._litellm

    async def complete(self, chat: ChatRequest) -> Reply:
        litellm = self._litellm or await self.prepare()
        body = {
            # Copied, for LiteLLM edits messages in place and another attempt may follow.
            key: deepcopy(value)
            for key, value in chat.body.items()
            if key not in ("model", "stream", "stream_options")
        }
        if chat.thinking is not None and (self.provider == "anthropic" or "claude" in self.path):
            body["thinking"] = chat.thinking
        try:
            answer = await litellm.acompletion(
                model=self.path,
                num_retries=0,
                max_retries=0,
                timeout=CALL_TIMEOUT_S,
                **body,
                **self._credentials,
            )
        except Exception as error:  # LiteLLM's error classes share no base but Exception
            raise self._failure_of(error) from error
        return Reply.of_completion(answer.model_dump(exclude_none=True), chat.requested_model)

    async def stream(self, chat: ChatRequest, out: EventStream) -> Reply:
        reply = await self.complete(chat)
        await tell(reply, out)
        return reply

    def _failure_of(self, error: Exception) -> UpstreamFailure:
        broken = _broken_link(error, self.base_url or self.provider)
        if broken is not None:
            return broken
        message, status = _message_of(error), getattr(error, "status_code", None)
        name = type(error).__name__
        if name == "APIConnectionError":
            return UpstreamFailure("connection", message, retryable=True)
        if name == "Timeout":
            return UpstreamFailure("timeout", message, retryable=True)
        if not isinstance(status, int):
            return UpstreamFailure("bad_response", f"{name}: {message}", status=502)
        response, code = getattr(error, "response", None), getattr(error, "code", None)
        type_ = getattr(error, "type", None)
        code = code if isinstance(code, str) else None
        kind = KIND_BY_CLASS.get(name) or kind_of_error(status, message, type_, code)
        return UpstreamFailure(
            kind,
            message,
            status=status,
            type=type_,
            code=code,
            retryable=may_repeat(status, kind),
            retry_after_s=retry_after_s(getattr(response, "headers", None) or {}, message),
        )

    async def close(self) -> None:
        if self._litellm is not None:
            close = getattr(self._litellm, "close_litellm_async_clients", None)
            if close is not None:
                await close()


def isolate_environment(variables: Mapping[str, str]) -> None:
    """Make the process's provider variables exactly the run's own."""
    for name in [name for name in os.environ if PROVIDER_VARIABLE.search(name)]:
        if name not in variables:
            del os.environ[name]
    for name, value in variables.items():
        if PROVIDER_VARIABLE.search(name):
            os.environ[name] = value
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_TELEMETRY"] = "False"


def preload() -> None:
    """Load LiteLLM with all that its first call loads, for processes that are forked from this one.

    It sees none of this process's provider variables: what it takes from them at its import would
    be every run's.
    """
    isolate_environment({})
    _load()
    for name in LOADED_BY_A_FIRST_CALL:
        with suppress(ImportError):  # another release may lay it out in another way
            importlib.import_module(name)


@cache
def _load() -> ModuleType:
    # 3 s and 190 MB: only when a run needs it, and not on the event loop.
    # The collector would look through what has been imported so far a dozen times meanwhile.
    gc.disable()
    try:
        litellm = importlib.import_module("litellm")
    finally:
        gc.freeze()
        gc.enable()
    for name, value in SETTINGS.items():
        setattr(litellm, name, value)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _keep_no_accounts()
    _look_up_once()
    return litellm


def _keep_no_accounts() -> None:
    """LiteLLM prices and logs each call for callbacks, of which there are none: a third of its
    time. The gateway keeps its own accounts.
    """
    core = importlib.import_module("litellm.litellm_core_utils.litellm_logging")
    accountant = getattr(core, "Logging", object)
    for name, nothing in (
        ("response_cost_calculator", _no_price),
        ("async_success_handler", _no_entry),
    ):
        if hasattr(accountant, name):
            setattr(accountant, name, nothing)


def _look_up_once() -> None:
    """LiteLLM asks its list of models a dozen times a call what the model is and can do: a sixth of
    its time, for answers that stay the same.
    """
    utils = importlib.import_module("litellm.utils")
    known = getattr(utils, MODEL_LOOK_UP, None)
    if known is not None:
        remembering = _remembering(known)
        for name, module in list(sys.modules.items()):
            if name.startswith("litellm.") and vars(module).get(MODEL_LOOK_UP) is known:
                setattr(module, MODEL_LOOK_UP, remembering)
    anthropic = importlib.import_module("litellm.llms.anthropic.common_utils")
    models = getattr(anthropic, "AnthropicModelInfo", None)
    able = getattr(models, MODEL_ABILITY, None)
    if able is not None:
        setattr(models, MODEL_ABILITY, staticmethod(_remembering(able)))


def _remembering(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, asked once for the same arguments; a dict of it is the caller's to change."""
    remembered = lru_cache(REMEMBERED)(function)

    @wraps(function)
    def ask(*args: Any, **kwargs: Any) -> Any:
        try:
            answer = remembered(*args, **kwargs)
        except TypeError:  # an argument that cannot be remembered
            return function(*args, **kwargs)
        return dict(answer) if isinstance(answer, dict) else answer

    return ask


def _no_price(*_: Any, **__: Any) -> None:
    return None


async def _no_entry(*_: Any, **__: Any) -> None:
    return None


def _broken_link(error: BaseException, place: str) -> UpstreamFailure | None:
    """LiteLLM calls a refused connection HTTP 500; the truth is further down the chain."""
    link: BaseException | None = error
    while link is not None:
        failure = link_failure(link, place)
        if failure is not None:
            return failure
        link = link.__cause__ or link.__context__
    return None


def _message_of(error: Exception) -> str:
    text = str(getattr(error, "message", "") or error)
    return text.removeprefix(f"litellm.{type(error).__name__}: ")
