"""A chat completion as the gateway sees it: the client's request and the reply it gets."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from osmosis.evaluation.gateway.failures import Refused, UpstreamFailure, error_text
from osmosis.evaluation.gateway.json_codec import dumps, loads
from osmosis.evaluation.gateway.provider_errors import kind_of_error
from osmosis.wire.samples import Route
from osmosis.workspace.advanced import AdvancedSection

if TYPE_CHECKING:
    from osmosis.evaluation.gateway.asked import Asked

CONTROL_FIELDS = frozenset(
    {
        "api_key", "api_base", "base_url", "api_version", "api_type", "organization", "project_id",
        "region_name", "custom_llm_provider", "deployment_id", "model_list", "model_info",
        "router", "router_settings", "callbacks", "success_callback", "failure_callback",
        "input_callback", "service_callback", "logger_fn", "extra_headers", "headers",
        "default_headers", "extra_query", "default_query", "client", "http_client",
        "shared_session", "ssl_verify", "ssl_certificate", "proxy", "proxies", "credentials",
        "fallbacks", "context_window_fallbacks", "content_policy_fallbacks", "num_retries",
        "max_retries", "retry_strategy", "retry_policy", "timeout", "request_timeout",
        "stream_timeout", "force_timeout", "cooldown_time", "rpm", "tpm", "caching", "cache",
        "mock_response", "mock_tool_calls", "mock_timeout", "drop_params",
        "additional_drop_params", "allowed_openai_params", "input_cost_per_token",
        "output_cost_per_token", "input_cost_per_second", "output_cost_per_second", "base_model",
        "hf_model_name", "custom_prompt_dict", "proxy_server_request", "secret_fields", "no-log",
        "guardrails", "acompletion", "use_litellm_proxy", "use_chat_completions_api", "verbose",
    }
)  # fmt: skip
"""Fields that steer the provider client instead of the model."""
CONTROL_PREFIXES = (
    "litellm_", "aws_", "azure_", "vertex_", "google_", "gcp_", "gcs_", "s3_", "sagemaker_",
    "bedrock_", "watsonx_", "oci_", "databricks_", "snowflake_", "langfuse_", "langsmith_",
)  # fmt: skip
CONTROL_SUFFIXES = ("_api_key", "_api_base", "_callback", "_callbacks")


@dataclass(slots=True)
class ChatRequest:
    """One checked request. ``body`` is ours to change; ``requested_model`` is echoed back."""

    body: dict[str, Any]
    requested_model: str
    stream: bool
    route: Route
    thinking: dict[str, Any] | None = None
    """Claude's own switch, from a client that speaks its dialect; for providers that know it."""
    asked: Asked | None = None
    """Which call of which sample it is; set once the request has its defaults."""

    @classmethod
    def parse(cls, raw: bytes, route: Route) -> ChatRequest:
        """Check a request body, or raise :class:`Refused`."""
        return cls.of(read_body(raw), route)

    @classmethod
    def of(cls, body: dict[str, Any], route: Route) -> ChatRequest:
        """Check a body that :func:`read_body` has let through, or raise :class:`Refused`."""
        if "n" in body:
            n = body["n"]
            if n is None:
                del body["n"]
            elif isinstance(n, bool) or n != 1:
                raise Refused(
                    400,
                    "The field 'n' must be 1: one call gives one answer. "
                    "Make several calls for several answers.",
                    "field_refused",
                )
        _check_messages(body.get("messages"))
        model = body.get("model")
        return cls(
            body=body,
            requested_model=model if isinstance(model, str) and model else "osmosis-rollout",
            stream=body.get("stream") is True,
            route=route,
        )

    def apply_defaults(self, advanced: AdvancedSection) -> None:
        """Set the run's inference settings where the client set none (policy route only)."""
        body = self.body
        if advanced.temperature is not None and body.get("temperature") is None:
            body["temperature"] = advanced.temperature
        if advanced.top_p is not None and body.get("top_p") is None:
            body["top_p"] = advanced.top_p
        if advanced.model_seed is not None and body.get("seed") is None:
            body["seed"] = advanced.model_seed
        if (
            advanced.max_tokens is not None
            and body.get("max_tokens") is None
            and body.get("max_completion_tokens") is None
        ):
            body["max_tokens"] = advanced.max_tokens


def read_body(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request, without fields that are the run's to set, or Refused."""
    try:
        body = loads(raw)
    except ValueError:
        raise Refused(400, "The request body is not JSON.") from None
    if not isinstance(body, dict):
        raise Refused(400, "The request body is not a JSON object.")
    extra = body.pop("extra_body", None)
    if isinstance(extra, dict):
        body.update(extra)
    for key in body:
        if (
            key in CONTROL_FIELDS
            or key.startswith(CONTROL_PREFIXES)
            or key.endswith(CONTROL_SUFFIXES)
        ):
            raise Refused(
                400,
                f"The field '{key}' is not accepted: keys, addresses and provider settings "
                "come from the run's config. Remove it from the request.",
                "field_refused",
            )
    return body


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "The field 'messages' must be a list with at least one message.")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refused(400, f"messages[{index}] must be an object with a 'role'.")
        if "content" not in message:
            # Clients drop the key beside tool calls; some servers insist on it.
            message["content"] = None if message.get("tool_calls") else ""


@dataclass(slots=True)
class Usage:
    """Token counts as the provider reported them; None where it said nothing."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    reported_cost_usd: float | None = None

    @classmethod
    def of(cls, raw: Any) -> Usage:
        if not isinstance(raw, dict):
            return cls()
        details = raw.get("prompt_tokens_details")
        if not isinstance(details, dict):
            details = {}
        spoken = raw.get("completion_tokens_details")
        if not isinstance(spoken, dict):
            spoken = {}
        return cls(
            prompt_tokens=_count(raw, "prompt_tokens"),
            completion_tokens=_count(raw, "completion_tokens"),
            cached_tokens=_first(
                _count(details, "cached_tokens"),
                _count(raw, "prompt_cache_hit_tokens"),
                _count(raw, "cache_read_input_tokens"),
            ),
            cache_write_tokens=_first(
                _count(raw, "cache_creation_input_tokens"),
                _count(details, "cache_creation_tokens"),
                _count(details, "cache_write_tokens"),
            ),
            reasoning_tokens=_first(
                _count(spoken, "reasoning_tokens"), _count(raw, "reasoning_tokens")
            ),
            reported_cost_usd=_cost(raw.get("cost")),
        )


@dataclass(frozen=True, slots=True)
class Recalled:
    """An answer of an earlier call: from where, how long that call took, what it cost.

    ``cost_usd`` None means that nobody knows.
    """

    source: Literal["cache", "replay"]
    latency_s: float
    cost_usd: float | None


@dataclass(slots=True)
class Reply:
    """The end of one successful attempt. ``body`` is the whole answer; of one that was streamed
    through it is put together afterwards, and None when that cannot be done.

    ``message`` is the assistant's; of a streamed one only tool call ids and reasoning.
    ``recalled`` tells that no model was asked.
    """

    usage: Usage
    finish_reason: str | None
    message: dict[str, Any]
    body: dict[str, Any] | None = None
    recalled: Recalled | None = None

    @classmethod
    def of_completion(cls, body: Any, requested_model: str) -> Reply:
        """Check a provider's answer and mend what clients stumble on, or raise."""
        if not isinstance(body, dict):
            raise UpstreamFailure("bad_response", "The answer is not a JSON object.", status=502)
        choices = body.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise _no_choices(body)
        choice = choices[0]
        message = choice.get("message")
        if not isinstance(message, dict):
            message = choice["message"] = {}
        message.setdefault("role", "assistant")
        content = message.get("content")
        if not isinstance(content, str):
            message["content"] = text_of(content)
        body["model"] = requested_model
        body["object"] = "chat.completion"
        if not body.get("id"):
            body["id"] = f"chatcmpl-{uuid.uuid4().hex}"
        if not body.get("created"):
            body["created"] = int(time.time())
        usage = Usage.of(body.get("usage"))
        finish = choice.get("finish_reason")
        return cls(usage, finish if isinstance(finish, str) else None, message, body)


def text_of(content: Any) -> str:
    """The text of a message's content, in either of its two shapes."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return ""


def _no_choices(body: dict[str, Any]) -> UpstreamFailure:
    """Some providers answer 200 with an error inside."""
    message, type_, code = error_text(dumps(body))
    if "error" not in body:
        text = "The answer is not a chat completion: it has no 'choices'."
        return UpstreamFailure("bad_response", text, status=502)
    status = int(code) if code is not None and code.isdecimal() and len(code) == 3 else 502
    kind = kind_of_error(status, message, type_, code) if status >= 400 else "bad_response"
    return UpstreamFailure(kind, message, status=status, type=type_, code=code)


def _count(raw: Mapping[str, Any], key: str) -> int | None:
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


def _cost(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        return None
    return float(value)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
