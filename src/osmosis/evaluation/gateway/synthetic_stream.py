"""A whole answer told as an event stream, for adapters that do not stream."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from osmosis.evaluation.gateway.chat import Reply
from osmosis.evaluation.gateway.event_stream import DONE, EventStream
from osmosis.evaluation.gateway.json_codec import dumps


async def tell(reply: Reply, out: EventStream, *, by_word: bool = False) -> None:
    """Send a whole answer to ``out`` as a stream."""
    if reply.body is not None:
        for event in events_of(reply.body, by_word=by_word):
            await out.send(event)


def events_of(completion: dict[str, Any], *, by_word: bool = False) -> Iterator[bytes]:
    """The chunks of ``completion``: role, text, tool calls, end, usage, ``[DONE]``."""
    head = {
        "id": completion.get("id"),
        "object": "chat.completion.chunk",
        "created": completion.get("created"),
        "model": completion.get("model"),
    }
    choice = completion["choices"][0]
    message = dict(choice["message"])
    content = message.pop("content", None) or ""
    calls = message.pop("tool_calls", None) or []
    first: dict[str, Any] = {"role": "assistant", "content": ""}
    first.update((key, value) for key, value in message.items() if value is not None)
    words = (re.findall(r"\s*\S+\s*", content) or [content]) if by_word else [content]

    def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        told = {"index": 0, "delta": delta, "finish_reason": finish, **more}
        return b"data: " + dumps({**head, "choices": [told]}) + b"\n\n"

    logprobs = choice.get("logprobs")
    yield event(first, **({"logprobs": logprobs} if logprobs else {}))
    for word in words:
        if word:
            yield event({"content": word})
    for index, call in enumerate(calls):
        yield event({"tool_calls": [{"index": index, **call}]})
    yield event({}, choice.get("finish_reason") or ("tool_calls" if calls else "stop"))
    if completion.get("usage"):
        yield b"data: " + dumps({**head, "choices": [], "usage": completion["usage"]}) + b"\n\n"
    yield DONE
