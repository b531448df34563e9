"""A streamed answer in the events of the Responses dialect."""

from __future__ import annotations

from typing import Any

from osmosis.evaluation.gateway.dialects.responses_objects import (
    ResponseFrame,
    call_item,
    message_item,
    new_id,
    reasoning_item,
    refusal_part,
    text_part,
)
from osmosis.evaluation.gateway.dialects.story import PartKind, Story, ToolCall

PREFIX = {"thought": "response.reasoning_text", "text": "response.output_text",
          "refusal": "response.refusal"}  # fmt: skip
FIELD = {"thought": "text", "text": "text", "refusal": "refusal"}


class ResponsesStory(Story):
    """One item of the output is open at a time, with one part."""

    def __init__(self, frame: ResponseFrame) -> None:
        super().__init__()
        self._frame = frame
        self._number = 0
        self._output: list[dict[str, Any]] = []
        self._open: PartKind | None = None
        self._item_id = ""
        self._text: list[str] = []
        self._logprobs: list[Any] = []

    def begin(self) -> None:
        for event in ("response.created", "response.in_progress"):
            self._tell(event, response=self._frame.begun())

    def say(self, kind: PartKind, text: str, logprobs: list[Any]) -> None:
        if self._open != kind:
            self._close()
            self._start(kind)
        self._text.append(text)
        self._logprobs.extend(logprobs)
        more = {"logprobs": logprobs} if kind == "text" else {}
        self._tell(f"{PREFIX[kind]}.delta", **self._place(), delta=text, **more)

    def end(self) -> None:
        self._close()
        for call in self.calls:
            self._tell_call(call)
        if not self._output:
            self._start("text")
            self._close()
        response = self._frame.ended(self._output, self.finish_reason, self.usage)
        self._tell(f"response.{response['status']}", response=response)

    def fail(self, body: dict[str, Any]) -> None:
        error: dict[str, Any] = body["error"]
        self._close()
        self._tell("response.failed", response=self._frame.failed(self._output, error["message"]))
        # The official client raises for an event that holds 'error', and for nothing less.
        flat = {key: error[key] for key in ("code", "message", "param")}
        self._tell("error", **flat, error=error)

    def _start(self, kind: PartKind) -> None:
        self._open, self._text, self._logprobs = kind, [], []
        self._item_id = new_id("rs" if kind == "thought" else "msg")
        self._tell(
            "response.output_item.added",
            output_index=len(self._output),
            item=reasoning_item(self._item_id, "", "in_progress")
            if kind == "thought"
            else message_item(self._item_id, [], "in_progress"),
        )
        part = self._part(kind)
        self._tell("response.content_part.added", **self._place(), part=part)

    def _close(self) -> None:
        kind = self._open
        if kind is None:
            return
        self._open = None
        text, part = "".join(self._text), self._part(kind)
        more = {"logprobs": self._logprobs} if kind == "text" else {}
        self._tell(f"{PREFIX[kind]}.done", **self._place(), **{FIELD[kind]: text}, **more)
        self._tell("response.content_part.done", **self._place(), part=part)
        item = (
            reasoning_item(self._item_id, text)
            if kind == "thought"
            else message_item(self._item_id, [part])
        )
        self._finish_item(item)

    def _part(self, kind: PartKind) -> dict[str, Any]:
        text = "".join(self._text)
        if kind == "thought":
            return {"type": "reasoning_text", "text": text}
        return text_part(text, self._logprobs) if kind == "text" else refusal_part(text)

    def _tell_call(self, call: ToolCall) -> None:
        item_id = new_id("fc")
        place = {"item_id": item_id, "output_index": len(self._output)}
        bare = ToolCall(call.id, call.name)
        self._tell(
            "response.output_item.added",
            output_index=place["output_index"],
            item=call_item(item_id, bare, "in_progress"),
        )
        event = "response.function_call_arguments"
        self._tell(f"{event}.delta", **place, delta=call.arguments)
        self._tell(f"{event}.done", **place, name=call.name, arguments=call.arguments)
        self._finish_item(call_item(item_id, call))

    def _finish_item(self, item: dict[str, Any]) -> None:
        self._tell("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)

    def _place(self) -> dict[str, Any]:
        return {
            "item_id": self._item_id,
            "output_index": len(self._output),
            "content_index": 0,
        }

    def _tell(self, event: str, **fields: Any) -> None:
        self.tell({"type": event, "sequence_number": self._number, **fields})
        self._number += 1
