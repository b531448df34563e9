"""A provider's event stream on its way through: bytes pass, the end of the story is noted."""

from __future__ import annotations

import re
from typing import Any

from osmosis.evaluation.gateway.chat import Usage
from osmosis.evaluation.gateway.failures import UpstreamFailure, error_text
from osmosis.evaluation.gateway.json_codec import dumps, loads
from osmosis.evaluation.gateway.provider_errors import kind_of_error
from osmosis.evaluation.gateway.stream_assembly import completion_of

NOTABLE = re.compile(
    rb'"usage"\s*:\s*\{|"finish_reason"\s*:\s*"|"error"\s*:\s*[{"]'
    rb'|"reasoning_content"\s*:\s*"|"tool_calls"\s*:\s*\['
)
"""Only lines with one of these are parsed. Inside a JSON string the quotes are escaped."""
MODEL_FIELD = re.compile(rb'"model"\s*:\s*"(?:[^"\\]|\\.)*"')
MAX_LINE_BYTES = 32 * 1024 * 1024
MAX_COLLECTED_BYTES = 8 * 1024 * 1024
"""A longer stream passes like any other, but its answer is not kept."""


class StreamRelay:
    """Feed it what the provider sends; it returns the whole lines to pass on."""

    def __init__(self, requested_model: str) -> None:
        self.usage = Usage()
        self.finish_reason: str | None = None
        self._thoughts: list[str] = []
        self._call_ids: list[str] = []
        self.done = False
        self.failure: UpstreamFailure | None = None
        self._tail = b""
        self._model_field = b'"model":' + dumps(requested_model)
        self._upstream_field: bytes | None = None
        self._payloads: list[bytes] = []
        self._collected_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """The complete lines up to now; ends before a line that reports an error."""
        data = self._tail + data
        cut = data.rfind(b"\n") + 1
        self._tail = data[cut:]
        if len(self._tail) > MAX_LINE_BYTES:
            self.failure = UpstreamFailure("bad_response", "A line of the stream is too long.")
            return b""
        block = data[:cut]
        if not block:
            return b""
        passed = 0
        for line in block.splitlines(keepends=True):
            if line.startswith(b"data:") and self._note(line):
                block = block[:passed]
                break
            passed += len(line)
        if self._upstream_field:
            block = block.replace(self._upstream_field, self._model_field)
        return block

    def end(self) -> bytes:
        """The last bytes for the client, once the provider closed the stream."""
        rest = self.feed(b"\n") if self._tail.strip() else b""
        if self.failure is None and not self.done:
            if self.finish_reason is None:
                self.failure = UpstreamFailure(
                    "connection", "The provider broke off the stream before its end."
                )
            else:
                rest += (b"\n" if rest else b"") + b"data: [DONE]\n\n"
        return rest

    def message(self) -> dict[str, Any]:
        """What the next request may need of the message that went by."""
        return {
            "tool_calls": [{"id": call_id} for call_id in self._call_ids],
            "reasoning_content": "".join(self._thoughts),
        }

    def completion(self) -> dict[str, Any] | None:
        """The whole answer, once the stream has ended; None when it cannot be told."""
        if self._collected_bytes > MAX_COLLECTED_BYTES:
            return None
        return completion_of(self._payloads)

    def _note(self, line: bytes) -> bool:
        """Read what matters in one data line; True when it is an error."""
        payload = line[5:].strip()
        if self._collected_bytes <= MAX_COLLECTED_BYTES:
            self._collected_bytes += len(line)
            self._payloads.append(payload)
        else:
            self._payloads.clear()
        if self._upstream_field is None:
            found = MODEL_FIELD.search(line)
            if found:
                self._upstream_field = found[0]
        if not NOTABLE.search(line):
            if payload == b"[DONE]":
                self.done = True
            return False
        try:
            event: Any = loads(payload)
        except ValueError:
            return False
        if not isinstance(event, dict):
            return False
        if event.get("error"):
            message, type_, code = error_text(dumps(event))
            self.failure = UpstreamFailure(
                kind_of_error(500, message, type_, code), message, type=type_, code=code
            )
            return True
        if isinstance(event.get("usage"), dict):
            self.usage = Usage.of(event["usage"])
        for choice in event.get("choices") or ():
            if isinstance(choice, dict):
                self._note_choice(choice)
        return False

    def _note_choice(self, choice: dict[str, Any]) -> None:
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return
        if isinstance(delta.get("reasoning_content"), str):
            self._thoughts.append(delta["reasoning_content"])
        for call in delta.get("tool_calls") or ():
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                self._call_ids.append(call["id"])
