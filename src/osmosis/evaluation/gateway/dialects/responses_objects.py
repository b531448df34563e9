"""The objects of the Responses dialect: the response itself and the items of its output."""

from __future__ import annotations

import time
import uuid
from typing import Any

from osmosis.evaluation.gateway.chat import Usage
from osmosis.evaluation.gateway.dialects.story import ToolCall

ECHOED = (
    "instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning",
    "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "user",
)  # fmt: skip
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponseFrame:
    """What all states of one response share; ``asked`` is the client's request."""

    def __init__(self, asked: dict[str, Any], model: str) -> None:
        given = {field: asked[field] for field in ECHOED if asked.get(field) is not None}
        self._shared = {
            "id": new_id("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            "background": False,
            "instructions": None,
            "max_output_tokens": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "user": None,
            **given,
        }

    def begun(self) -> dict[str, Any]:
        return self._in_state("in_progress", [])

    def ended(
        self, output: list[dict[str, Any]], finish_reason: str | None, usage: Usage
    ) -> dict[str, Any]:
        reason = INCOMPLETE.get(finish_reason or "")
        return self._in_state(
            "incomplete" if reason else "completed",
            output,
            incomplete_details={"reason": reason} if reason else None,
            usage=usage_object(usage),
        )

    def failed(self, output: list[dict[str, Any]], message: str) -> dict[str, Any]:
        error = {"code": "server_error", "message": message}
        return self._in_state("failed", output, error=error)

    def _in_state(self, status: str, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        state = {"status": status, "output": output, "error": None, "incomplete_details": None}
        return {**self._shared, **state, "usage": None, **more}


def usage_object(usage: Usage) -> dict[str, Any] | None:
    """None where the provider counted nothing: unknown is not zero."""
    if usage.prompt_tokens is None and usage.completion_tokens is None:
        return None
    heard, spoken = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return {
        "input_tokens": heard,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": spoken,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": heard + spoken,
    }


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def reasoning_item(id: str, text: str, status: str = "completed") -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"id": id, "type": "reasoning", "summary": [], "content": content, "status": status}


def message_item(id: str, parts: list[dict[str, Any]], status: str = "completed") -> dict[str, Any]:
    return {"id": id, "type": "message", "role": "assistant", "content": parts, "status": status}


def text_part(text: str, logprobs: list[Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def refusal_part(text: str) -> dict[str, Any]:
    return {"type": "refusal", "refusal": text}


def call_item(id: str, call: ToolCall, status: str = "completed") -> dict[str, Any]:
    return {
        "id": id,
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "status": status,
    }
