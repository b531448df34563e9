"""The objects of the Messages dialect: content blocks, stop reasons, usage."""

from __future__ import annotations

import uuid
from typing import Any

from osmosis.evaluation.gateway.chat import Usage
from osmosis.evaluation.gateway.dialects.story import ToolCall
from osmosis.evaluation.gateway.json_codec import loads

STOP_REASONS = {
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
}
THINKING_TYPES = ("thinking", "redacted_thinking")


def message_object(model: str, content: list[dict[str, Any]], usage: Usage) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_object(usage),
    }


def ending(
    finish_reason: str | None, stopped_by: str | None, stops: list[str], *, has_calls: bool
) -> dict[str, Any]:
    """``stop_reason`` and ``stop_sequence``; the latter where the server says which it was."""
    reason = STOP_REASONS.get(finish_reason or "", "tool_use" if has_calls else "end_turn")
    if reason == "end_turn" and stopped_by in stops:
        return {"stop_reason": "stop_sequence", "stop_sequence": stopped_by}
    return {"stop_reason": reason, "stop_sequence": None}


def usage_object(usage: Usage) -> dict[str, int]:
    """Anthropic counts cached tokens beside the input, OpenAI within it."""
    read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    return {
        "input_tokens": max(0, (usage.prompt_tokens or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.completion_tokens or 0,
    }


def thinking_block(text: str, signature: str = "") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def tool_use_block(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_of(call)}


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments as the object that this dialect insists on, whatever the model wrote."""
    try:
        value = loads(call.arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"_raw": call.arguments}
