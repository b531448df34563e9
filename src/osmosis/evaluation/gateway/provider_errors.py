"""Which kind of failure a provider's error answer is, by its code where it has one, else by text.

Statuses alone do not tell: a spent quota and a rate limit are both 429, and a conversation that is
too long, a refused prompt and a misspelt parameter are all 400. The kinds are those of
:data:`osmosis.wire.failure_policy.CALL_POLICIES`. Learned from the answers of OpenAI, Azure,
Anthropic, Gemini, Bedrock, OpenRouter, Groq, DeepSeek, Mistral, vLLM, llama.cpp and Ollama.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

OVERLOADED_STATUSES = frozenset({503, 529})
TOO_LONG_STATUSES = frozenset({400, 413, 422, 500})
"""llama.cpp and Ollama have answered 500 to a conversation that is too long."""
REFUSAL_STATUSES = frozenset({400, 403, 422, 451})

KIND_BY_CODE: Mapping[str, str] = {
    "insufficient_quota": "quota",
    "insufficientquota": "quota",
    "quota_exceeded": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "billing_error": "quota",
    "servicequotaexceededexception": "quota",
    "context_length_exceeded": "context_length",
    "exceed_context_size_error": "context_length",
    "string_above_max_length": "context_length",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "responsibleaipolicyviolation": "content_filter",
    "moderation_blocked": "content_filter",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "slow_down": "overloaded",
    "throttlingexception": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "invalid_api_key": "auth",
    "authentication_error": "auth",
    "account_deactivated": "auth",
}
"""By ``code`` or ``type`` of the answer, in lower case."""

QUOTA = re.compile(
    r"credit balance is too low|insufficient (credits?|balance|funds|quota)|out of credits"
    r"|exceeded your current quota|(usage|spend(ing)?|billing|hard) limit (has been |was )?reached"
    r"|billing.{0,30}not active|requires more credits|payment required",
    re.IGNORECASE,
)
COMES_BACK = re.compile(r"retry in|try again in|per (minute|second|hour)|RESOURCE_EXHAUSTED", re.I)
"""Gemini words its rate limits like a spent quota, but says when to come back."""
CONTEXT_LENGTH = re.compile(
    r"maximum context length|context[ _](length|window|size)|prompt is too long"
    r"|longer than the maximum model length|exceed(s|ed)? context limit"
    r"|input token count.{0,40}exceeds|input is too long|prompt too long|too many input tokens"
    r"|too large for model with \d+ maximum|tokens. must be <= ?\d+",
    re.IGNORECASE,
)
CONTENT_FILTER = re.compile(
    r"content (management|filter(ing)?|policy|policies)|content_filter|safety (system|filter)"
    r"|usage polic(y|ies)|was flagged|prohibited[_ ]content|responsible ai|moderation",
    re.IGNORECASE,
)
OVERLOADED = re.compile(r"overloaded|server (is )?busy|no capacity|at capacity", re.IGNORECASE)
BAD_KEY = re.compile(r"api[_ ]key (is )?(not valid|invalid|expired)|invalid api[_ ]key", re.I)


def kind_of_error(
    status: int, message: str = "", type: str | None = None, code: str | None = None
) -> str:
    """The kind of an HTTP error answer."""
    by_code = _by_code(code) or _by_code(type)
    if by_code is not None:
        return by_code
    if status == 402 or (status in (400, 403, 429) and _spent(message)):
        return "quota"
    if status in TOO_LONG_STATUSES and CONTEXT_LENGTH.search(message):
        return "context_length"
    if status in REFUSAL_STATUSES and CONTENT_FILTER.search(message):
        return "content_filter"
    if status == 400 and BAD_KEY.search(message):
        return "auth"
    if status in OVERLOADED_STATUSES or (status >= 500 and OVERLOADED.search(message)):
        return "overloaded"
    return kind_of_status(status)


def kind_of_status(status: int) -> str:
    """The kind as far as the status alone tells it."""
    if status in (401, 403):
        return "auth"
    if status == 404:
        return "not_found"
    if status == 408:
        return "timeout"
    if status == 429:
        return "rate_limit"
    if status < 400:
        return "bad_response"
    if status in OVERLOADED_STATUSES:
        return "overloaded"
    return "server_error" if status >= 500 else "invalid_request"


def _by_code(code: str | None) -> str | None:
    return KIND_BY_CODE.get(code.lower()) if code else None


def _spent(message: str) -> bool:
    return bool(QUOTA.search(message)) and not COMES_BACK.search(message)
