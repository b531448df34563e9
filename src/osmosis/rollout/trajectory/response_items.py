"""Items of OpenAI's Responses API as chat messages.

Nothing is refused: an item of an unknown kind is kept as its JSON text, so that a conversation
that worked is never lost over a kind of item that is newer than this code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from osmosis.rollout.json_values import json_safe

_TEXT_PARTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def chat_messages_of_items(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One assistant message for all that a model call gave: text, reasoning and tool calls."""
    messages: list[dict[str, Any]] = []
    reply: dict[str, Any] | None = None
    for item in items:
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") != "assistant":
            reply = None
            messages.append({"role": str(item.get("role")), "content": _text(item.get("content"))})
        elif isinstance(kind, str) and kind.endswith("_output"):
            reply = None
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": str(item.get("call_id")),
                    "content": _text(item.get("output")),
                }
            )
        else:
            if reply is None:
                reply = {"role": "assistant", "content": ""}
                messages.append(reply)
            _add(reply, kind, item)
    return messages


def _add(reply: dict[str, Any], kind: Any, item: Mapping[str, Any]) -> None:
    if kind == "message":
        _append(reply, "content", _text(item.get("content")))
    elif kind == "reasoning":
        _append(reply, "reasoning_content", _text(item.get("summary") or item.get("content")))
    elif isinstance(kind, str) and kind.endswith("_call") and "call_id" in item:
        function = {
            "name": str(item.get("name") or kind),
            "arguments": _json_text(item.get("arguments", item.get("action", item.get("input")))),
        }
        call = {"id": str(item["call_id"]), "type": "function", "function": function}
        reply.setdefault("tool_calls", []).append(call)
    else:
        _append(reply, "content", _json_text(item))


def _append(reply: dict[str, Any], key: str, text: str) -> None:
    if text:
        reply[key] = f"{reply[key]}\n{text}" if reply.get(key) else text


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, list | tuple):
        return "\n".join(text for text in map(_part_text, content) if text)
    return _json_text(content)


def _part_text(part: Any) -> str:
    if isinstance(part, Mapping):
        if part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str):
            return part["text"]
        if isinstance(part.get("refusal"), str):
            return part["refusal"]
    return _json_text(part)


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(json_safe(value), ensure_ascii=False)
