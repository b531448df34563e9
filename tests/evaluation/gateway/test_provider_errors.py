"""Error answers of providers, as they are sent, and the kind that each of them is."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from osmosis.evaluation.gateway.failures import failure_of_answer


def openai(message: str, type: str | None = None, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def anthropic(type: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message}}


ANSWERS = [
    # OpenAI
    (429, openai("You exceeded your current quota, please check your plan and billing details.",
                 "insufficient_quota", "insufficient_quota"), "quota"),
    (429, openai("Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29000.",
                 "tokens", "rate_limit_exceeded"), "rate_limit"),
    (401, openai("Incorrect API key provided: sk-a*b.", "invalid_request_error",
                 "invalid_api_key"), "auth"),
    (400, openai("This model's maximum context length is 128000 tokens. However, your messages "
                 "resulted in 130101 tokens.", "invalid_request_error",
                 "context_length_exceeded"), "context_length"),
    (400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage "
                 "policy.", "invalid_request_error", "invalid_prompt"), "content_filter"),
    (400, openai("Unsupported value: 'temperature' does not support 0.", "invalid_request_error",
                 "unsupported_value"), "invalid_request"),
    (404, openai("The model `gpt-9` does not exist or you do not have access to it.",
                 "invalid_request_error", "model_not_found"), "not_found"),
    (503, openai("The engine is currently overloaded, please try again later.", "server_error"),
     "overloaded"),
    (500, openai("The server had an error while processing your request.", "server_error"),
     "server_error"),
    # Azure
    (400, {"error": {"message": "The response was filtered due to the prompt triggering Azure "
                     "OpenAI's content management policy.", "code": "content_filter",
                     "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
     "content_filter"),
    (429, {"error": {"code": "429", "message": "Requests to the ChatCompletions_Create Operation "
                     "have exceeded token rate limit of your current pricing tier. Please retry "
                     "after 6 seconds."}}, "rate_limit"),
    (401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key."}},
     "auth"),
    # Anthropic
    (529, anthropic("overloaded_error", "Overloaded"), "overloaded"),
    (429, anthropic("rate_limit_error", "This request would exceed your rate limit."),
     "rate_limit"),
    (400, anthropic("invalid_request_error", "Your credit balance is too low to access the "
                    "Anthropic API. Please go to Plans & Billing to upgrade."), "quota"),
    (400, anthropic("invalid_request_error", "prompt is too long: 210034 tokens > 200000 maximum"),
     "context_length"),
    (400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: "
                    "190000 + 20000 > 200000"), "context_length"),
    (400, anthropic("invalid_request_error", "Output blocked by content filtering policy"),
     "content_filter"),
    (403, anthropic("permission_error", "Your API key does not have permission."), "auth"),
    # Gemini
    (429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your "
                     "current quota, please check your plan. Quota exceeded for metric: "
                     "generate_requests_per_model, limit: 15\nPlease retry in 5.2s."}},
     "rate_limit"),
    (400, {"error": {"code": 400, "status": "INVALID_ARGUMENT",
                     "message": "API key not valid. Please pass a valid API key."}}, "auth"),
    (400, {"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum "
                     "number of tokens allowed (1048576)."}}, "context_length"),
    # Routers
    (402, openai("Insufficient credits. Add more at the dashboard.", None, 402), "quota"),
    (402, openai("Insufficient Balance", "unknown_error", "invalid_request_error"), "quota"),
    (403, openai("Your chosen model requires moderation and your input was flagged.", None, 403),
     "content_filter"),
    (413, openai("Request too large for model `x` on tokens per minute (TPM): Limit 6000.",
                 "tokens", "rate_limit_exceeded"), "rate_limit"),
    # vLLM
    (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens. "
           "However, you requested 5000 tokens in the messages.", "type": "BadRequestError",
           "param": None, "code": 400}, "context_length"),
    (400, {"error": {"message": "The decoder prompt (length 5000) is longer than the maximum model "
                     "length of 4096.", "type": "BadRequestError", "code": 400}}, "context_length"),
    (404, {"object": "error", "message": "The model `x` does not exist.",
           "type": "NotFoundError", "code": 404}, "not_found"),
    # llama.cpp
    (400, {"error": {"code": 400, "message": "the request exceeds the available context size, try "
                     "increasing it", "type": "exceed_context_size_error",
                     "n_prompt_tokens": 5000, "n_ctx": 4096}}, "context_length"),
    (503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
     "overloaded"),
    # Ollama
    (404, openai("model 'x' not found", "api_error"), "not_found"),
    (503, openai("server busy, please try again. maximum pending requests exceeded"),
     "overloaded"),
    (500, openai("input length exceeds maximum context length", "api_error"), "context_length"),
    # Nobody in particular
    (502, {"detail": "Bad Gateway"}, "server_error"),
    (422, {"detail": [{"loc": ["body", "top_k"], "msg": "Extra inputs are not permitted"}]},
     "invalid_request"),
    (408, {"detail": "Request Timeout"}, "timeout"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind"), ANSWERS)
def test_the_kind_of_an_answer(status: int, body: dict[str, Any], kind: str) -> None:
    assert failure_of_answer(status, {}, orjson.dumps(body)).kind == kind


@pytest.mark.parametrize(("status", "body", "kind"), ANSWERS)
def test_only_what_may_pass_is_repeated(status: int, body: dict[str, Any], kind: str) -> None:
    passing = {"rate_limit", "overloaded", "server_error", "timeout"}
    failure = failure_of_answer(status, {}, orjson.dumps(body))
    assert failure.retryable == (kind in passing and status != 413)
