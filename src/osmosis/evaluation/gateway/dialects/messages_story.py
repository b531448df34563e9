"""A streamed answer in the events of the Messages dialect."""

from __future__ import annotations

from typing import Any

from osmosis.evaluation.gateway.chat import Usage
from osmosis.evaluation.gateway.dialects.messages_objects import (
    arguments_of,
    ending,
    message_object,
    thinking_block,
    usage_object,
)
from osmosis.evaluation.gateway.dialects.story import PartKind, Story
from osmosis.evaluation.gateway.json_codec import dumps


class MessagesStory(Story):
    """One content block is open at a time. Thoughts are told to clients that asked for them."""

    def __init__(self, model: str, stops: list[str], *, thinking: bool) -> None:
        super().__init__()
        self._model = model
        self._stops = stops
        self._thinking = thinking
        self._index = 0
        self._open: str | None = None

    def begin(self) -> None:
        self.tell({"type": "message_start", "message": message_object(self._model, [], Usage())})

    def say(self, kind: PartKind, text: str, logprobs: list[Any]) -> None:
        if kind != "thought":
            self._open_block("text", {"type": "text", "text": ""})
            self._delta({"type": "text_delta", "text": text})
        elif self._thinking:
            self._open_block("thinking", thinking_block(""))
            self._delta({"type": "thinking_delta", "thinking": text})

    def say_blocks(self, blocks: list[Any]) -> bool:
        for block in blocks:
            if not isinstance(block, dict) or not self._thinking:
                continue
            if block.get("type") == "redacted_thinking":
                self._close()
                self._open_block("redacted_thinking", block)
                self._close()
                continue
            if block.get("thinking"):
                self.say("thought", str(block["thinking"]), [])
            if block.get("signature"):
                self._open_block("thinking", thinking_block(""))
                self._delta({"type": "signature_delta", "signature": block["signature"]})
                self._close()
        return True

    def end(self) -> None:
        for call in self.calls:
            self._close()
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            self._open_block("tool_use", block)
            told = dumps(arguments_of(call)).decode()
            self._delta({"type": "input_json_delta", "partial_json": told})
        self._close()
        how = ending(self.finish_reason, self.stopped_by, self._stops, has_calls=bool(self.calls))
        usage = usage_object(self.usage)
        self.tell({"type": "message_delta", "delta": how, "usage": usage})
        self.tell({"type": "message_stop"})

    def fail(self, body: dict[str, Any]) -> None:
        self.tell(body)

    def _open_block(self, kind: str, block: dict[str, Any]) -> None:
        if self._open == kind:
            return
        self._close()
        self._open = kind
        self.tell({"type": "content_block_start", "index": self._index, "content_block": block})

    def _delta(self, delta: dict[str, Any]) -> None:
        self.tell({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self) -> None:
        if self._open is not None:
            self.tell({"type": "content_block_stop", "index": self._index})
            self._open = None
            self._index += 1
