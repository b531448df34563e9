"""Messages made of content blocks, as Strands and Bedrock write them, as chat messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from osmosis.rollout.json_values import json_safe

_MEDIA = ("image", "document", "video", "audio")
_NOT_SAID = ("cachePoint",)


def content_blocks(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Chat messages with plain text as messages of content blocks; others stay as they are."""
    blocks: list[dict[str, Any]] = []
    for message in messages:
        content = message.get("content")
        said = {**message, "content": [{"text": content}]} if isinstance(content, str) else message
        blocks.append(dict(said))
    return blocks


def chat_messages_of_blocks(
    messages: Iterable[Mapping[str, Any]], system_prompt: str | None = None
) -> list[dict[str, Any]]:
    """Text, reasoning and tool calls of a message together; each tool result on its own.

    Media are named and not copied; a block of an unknown kind is kept as its JSON text.
    """
    found: list[dict[str, Any]] = []
    if system_prompt:
        found.append({"role": "system", "content": system_prompt})
    for message in messages:
        found.extend(_split(message))
    return found


def _split(message: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    content = message.get("content")
    blocks: list[Any] = [{"text": content}] if isinstance(content, str) else list(content or ())
    texts: list[str] = []
    said: dict[str, Any] = {"role": str(message.get("role")), "content": ""}
    for block in blocks:
        if not isinstance(block, Mapping):
            texts.append(_json_text(block))
        elif "toolResult" in block:
            result = block["toolResult"]
            yield {
                "role": "tool",
                "tool_call_id": str(result.get("toolUseId")),
                "content": "\n".join(filter(None, map(_text, result.get("content") or []))),
            }
        elif "toolUse" in block:
            use = block["toolUse"]
            function = {"name": str(use.get("name")), "arguments": _json_text(use.get("input"))}
            call = {"id": str(use.get("toolUseId")), "type": "function", "function": function}
            said.setdefault("tool_calls", []).append(call)
        elif "reasoningContent" in block:
            reasoning = block["reasoningContent"].get("reasoningText", {}).get("text")
            if reasoning:
                said["reasoning_content"] = reasoning
        else:
            texts.append(_text(block))
    said["content"] = "\n".join(filter(None, texts))
    if said["content"] or len(said) > 2 or not blocks:
        yield said


def _text(block: Mapping[str, Any]) -> str:
    if isinstance(block.get("text"), str):
        return block["text"]
    if "json" in block:
        return _json_text(block["json"])
    for kind in _MEDIA:
        if kind in block:
            return f"[{kind}: {block[kind].get('format', 'unknown format')}]"
    return "" if any(kind in block for kind in _NOT_SAID) else _json_text(block)


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(json_safe(value), ensure_ascii=False)
