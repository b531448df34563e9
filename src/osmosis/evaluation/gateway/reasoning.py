"""What a model thought before it called tools, kept for clients that drop it.

Some models refuse a conversation whose tool calls come back without the thoughts that led to
them, and most client libraries do not send those back. They are put back onto the assistant
message with the same tool call, within one rollout execution.
"""

from __future__ import annotations

from typing import Any

FIELDS = ("reasoning_content", "thinking_blocks", "reasoning_details")


class ReasoningMemory:
    """Thoughts of one route of one session, by the id of the tool call they led to."""

    def __init__(self) -> None:
        self._by_call: dict[str, dict[str, Any]] = {}

    def keep(self, message: dict[str, Any]) -> None:
        calls = message.get("tool_calls")
        if not calls:
            return
        thoughts = {field: message[field] for field in FIELDS if message.get(field)}
        if not thoughts:
            return
        for call in calls:
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                self._by_call[call["id"]] = thoughts

    def restore(self, messages: list[dict[str, Any]]) -> None:
        if not self._by_call:
            return
        for message in messages:
            if message["role"] != "assistant" or any(message.get(field) for field in FIELDS):
                continue
            for call in message.get("tool_calls") or ():
                call_id = call.get("id") if isinstance(call, dict) else None
                if isinstance(call_id, str) and call_id in self._by_call:
                    message.update(self._by_call[call_id])
                    break
