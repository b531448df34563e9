"""A streamed chat completion, heard chunk by chunk and retold in another dialect.

Thoughts and text are retold as they come. Tool calls are told whole once the model has ended:
nobody can act on half of one, and the pieces of several may come mixed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

from aiohttp import web

from osmosis.evaluation.gateway.chat import Usage
from osmosis.evaluation.gateway.event_stream import EventStream
from osmosis.evaluation.gateway.json_codec import dumps, loads

PartKind = Literal["thought", "text", "refusal"]


@dataclass(slots=True)
class ToolCall:
    """A function that the model wants called; ``arguments`` is JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str = ""


class Story(ABC):
    """What has been heard. A subclass says how each thing is told, by calling :meth:`tell`."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.finish_reason: str | None = None
        self.stopped_by: str | None = None
        """The stop sequence that ended the text, from the servers that say."""
        self.calls: list[ToolCall] = []
        self._by_index: dict[int, ToolCall] = {}
        self._told: list[bytes] = []

    @abstractmethod
    def begin(self) -> None:
        """The first words, before anything that the model says."""

    @abstractmethod
    def say(self, kind: PartKind, text: str, logprobs: list[Any]) -> None:
        """A further piece of a thought, of the text or of a refusal."""

    def say_blocks(self, blocks: list[Any]) -> bool:
        """Thoughts in Claude's own form; False when ``reasoning_content`` shall be told instead."""
        return False

    @abstractmethod
    def end(self) -> None:
        """The last words, of an answer that is whole; tool calls are in ``calls``."""

    @abstractmethod
    def fail(self, body: dict[str, Any]) -> None:
        """The last words of an answer that broke off; ``body`` is the dialect's error body."""

    def tell(self, event: dict[str, Any]) -> None:
        self._told.append(f"event: {event['type']}\ndata: ".encode() + dumps(event) + b"\n\n")

    def take(self) -> bytes:
        """What is to be sent now."""
        told, self._told = b"".join(self._told), []
        return told

    def hear(self, chunk: dict[str, Any]) -> None:
        if isinstance(chunk.get("usage"), dict):
            self.usage = Usage.of(chunk["usage"])
        for choice in chunk.get("choices") or ():
            if not isinstance(choice, dict):
                continue
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._hear_delta(delta, logprobs_of(choice))
            if isinstance(choice.get("finish_reason"), str):
                self.finish_reason = choice["finish_reason"]
            if isinstance(choice.get("stop_reason"), str):
                self.stopped_by = choice["stop_reason"]

    def _hear_delta(self, delta: dict[str, Any], logprobs: list[Any]) -> None:
        blocks = delta.get("thinking_blocks")
        if not (isinstance(blocks, list) and blocks and self.say_blocks(blocks)):
            thought = thought_of(delta)
            if thought:
                self.say("thought", thought, [])
        if isinstance(delta.get("content"), str) and delta["content"]:
            self.say("text", delta["content"], logprobs)
        if isinstance(delta.get("refusal"), str) and delta["refusal"]:
            self.say("refusal", delta["refusal"], [])
        for piece in delta.get("tool_calls") or ():
            if isinstance(piece, dict):
                self._hear_call(piece)

    def _hear_call(self, piece: dict[str, Any]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        index = piece.get("index")
        if not isinstance(index, int):  # some servers leave it out
            index = len(self.calls) if piece.get("id") else max(0, len(self.calls) - 1)
        call = self._by_index.get(index)
        if call is None:
            call = self._by_index[index] = ToolCall(str(piece.get("id") or f"call_{index}"), "")
            self.calls.append(call)
        if isinstance(function.get("name"), str):
            call.name = call.name or function["name"]
        if isinstance(function.get("arguments"), str):
            call.arguments += function["arguments"]


class StoryStream(EventStream):
    """Chat completion chunks in, another dialect's events out."""

    def __init__(self, request: web.BaseRequest, story: Story, heartbeat: bytes) -> None:
        super().__init__(request)
        self.heartbeat = heartbeat
        self._story = story
        self._begun = False
        self._ended = False

    async def send(self, data: bytes) -> None:
        """Retell whole lines of a chat completion's stream."""
        for line in data.splitlines():
            if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
                continue
            try:
                chunk = loads(line[5:])
            except ValueError:
                continue  # as lenient as the relay that passes the same line to chat clients
            if isinstance(chunk, dict):
                self._begin()
                self._story.hear(chunk)
        await self._flush()

    async def send_error(self, body: Any) -> None:
        self._begin()
        self._story.fail(body)
        self._ended = True
        await self._flush()

    async def finish(self) -> web.StreamResponse:
        if not self._ended:
            self._ended = True
            self._begin()
            self._story.end()
            await self._flush()
        return await super().finish()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._story.begin()

    async def _flush(self) -> None:
        told = self._story.take()
        if told:
            await super().send(told)


def thought_of(message: dict[str, Any]) -> str:
    """The reasoning text of a message or delta, under either of its names."""
    for field in ("reasoning_content", "reasoning"):
        if isinstance(message.get(field), str):
            return message[field]
    return ""


def logprobs_of(choice: dict[str, Any]) -> list[Any]:
    """The token log probabilities of a choice, in the shape that both OpenAI dialects share."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return content if isinstance(content, list) else []


def tool_calls_of(message: dict[str, Any]) -> list[ToolCall]:
    """The function calls of a whole assistant message."""
    made: list[ToolCall] = []
    calls: Any = message.get("tool_calls") or []
    for index, call in enumerate(calls):
        function: Any = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else dumps(arguments or {}).decode()
            call_id = str(call.get("id") or f"call_{index}")
            made.append(ToolCall(call_id, str(function.get("name") or ""), text))
    return made
