"""The whole answer of an event stream that went by, put together once the stream has ended.

Pieces of text follow each other, lists grow (tool calls by their ``index``), and whatever else a
chunk says replaces what an earlier one said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from osmosis.evaluation.gateway.json_codec import loads

DONE = b"[DONE]"
PIECE = re.compile(
    rb'"delta"\s*:\s*\{\s*(?:"role"\s*:\s*"[a-z]*"\s*,\s*)?"content"\s*:\s*"([^"]*)"'
)
"""A piece of text without a quote in it. Inside a JSON string the quotes are escaped."""


def completion_of(payloads: Sequence[bytes]) -> dict[str, Any] | None:
    """The chat completion that the ``data:`` payloads spell, or None when they spell none."""
    try:
        told = (payload for payload in payloads if payload != DONE)
        chunks: Any = loads(b"[" + b",".join(_fewer(told)) + b"]")
    except ValueError:
        return None
    body: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": None}
    for chunk in chunks:
        if not isinstance(chunk, dict):
            continue
        told = chunk.get("choices")
        for name, value in chunk.items():
            if name != "choices" and value is not None:
                body[name] = value
        if isinstance(told, list) and told and isinstance(told[0], dict):
            _add_choice(choice, message, told[0])
    if choice["finish_reason"] is None:
        return None
    for call in message.get("tool_calls") or ():
        call.pop("index", None)
    return {**body, "object": "chat.completion", "choices": [choice]}


def _fewer(payloads: Iterable[bytes]) -> Iterator[bytes]:
    """The same story in fewer chunks: such as differ in their text alone become one.

    A piece of text between the same bytes, and itself without a quote, can be nothing but the
    inside of the same JSON string; parsing each for itself costs as much as all else.
    """
    before, after = b"", b""
    texts: list[bytes] = []
    for payload in payloads:
        if texts and payload.startswith(before) and payload.endswith(after):
            text = payload[len(before) : len(payload) - len(after)]
            fits = len(payload) >= len(before) + len(after)
            if fits and b'"' not in text and not text.endswith(b"\\"):
                texts.append(text)
                continue
        if texts:
            yield before + b"".join(texts) + after
            texts = []
        found = PIECE.search(payload)
        if found is None or found[1].endswith(b"\\"):
            yield payload
        else:
            before, after = payload[: found.start(1)], payload[found.end(1) :]
            texts = [found[1]]
    if texts:
        yield before + b"".join(texts) + after


def _add_choice(choice: dict[str, Any], message: dict[str, Any], told: dict[str, Any]) -> None:
    for name, value in told.items():
        if name == "delta":
            if isinstance(value, dict):
                _merge(message, value)
        elif name == "logprobs" and isinstance(value, dict):
            _merge(choice.setdefault("logprobs", {}), value)
        elif name != "index" and value is not None:
            choice[name] = value


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    """Add one delta to what is known."""
    for name, value in more.items():
        known = into.get(name)
        if name in _NAMES and known:
            continue
        if isinstance(value, str) and isinstance(known, str):
            into[name] = known + value
        elif isinstance(value, list) and all(_has_index(item) for item in value):
            _merge_items(into.setdefault(name, []), value)
        elif isinstance(value, list) and isinstance(known, list):
            known.extend(value)
        elif isinstance(value, dict) and isinstance(known, dict):
            _merge(known, value)
        elif value is not None:
            into[name] = value


_NAMES = frozenset({"role", "id", "type", "index", "name"})
"""Said once, though some servers repeat them in every chunk."""


def _has_index(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("index"), int)


def _merge_items(known: Any, items: list[dict[str, Any]]) -> None:
    if not isinstance(known, list):
        return
    for item in items:
        same = next((one for one in known if one.get("index") == item["index"]), None)
        if same is None:
            known.append(dict(item))
        else:
            _merge(same, item)
