"""What makes two requests the same: the key of the response cache and of replays.

A fingerprint is taken of a request as the model would get it, after the run's defaults: route,
messages and every field that can change an answer. How the answer travels (``stream``) and who
asks (``user``, ``metadata`` and the like) is left out, and so is the client's name for the model.

Secret values are taken out first, so that neither a digest nor a preview says anything of them;
``secret`` tells that there were some.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from osmosis.evaluation.gateway.chat import ChatRequest, text_of
from osmosis.evaluation.redaction import Redactor

DIGEST_BYTES = 16
MARK_BYTES = 8
PREVIEW_CHARS = 120
SHOWN_FIELD_CHARS = 80
"""A field's value up to this length is kept as it is; of a longer one only its mark."""
IRRELEVANT = frozenset(
    {
        "messages", "model", "stream", "stream_options", "user", "metadata", "safety_identifier",
        "prompt_cache_key", "prompt_cache_retention", "store",
    }
)  # fmt: skip
"""Fields that cannot change an answer, and ``messages``, which are marked one by one."""


class MessageMark(NamedTuple):
    """One message, told apart by ``mark``; ``preview`` is the start of its text."""

    role: str
    mark: str
    preview: str


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One request. ``fields`` are the other fields, short values as JSON, long ones as marks."""

    digest: str
    messages: tuple[MessageMark, ...]
    fields: Mapping[str, str]
    secret: bool


def fingerprint_of(chat: ChatRequest, redactor: Redactor) -> Fingerprint:
    """Of a request that has its defaults. Never raises."""
    whole = hashlib.blake2b(chat.route.encode(), digest_size=DIGEST_BYTES)
    secret = False
    marks: list[MessageMark] = []
    for message in chat.body["messages"]:
        text = canonical(message)
        clean = redactor.text(text)
        shown = message
        if clean != text:
            secret, shown = True, redactor.json(message)
        mark = mark_of(clean)
        whole.update(mark.encode())
        marks.append(MessageMark(str(shown["role"])[:40], mark, _preview(shown)))
    fields: dict[str, str] = {}
    for name, value in sorted(_fields(chat)):
        text = canonical(value)
        clean = redactor.text(text)
        secret = secret or clean != text
        whole.update(f"\0{name}\0{clean}".encode("utf-8", "surrogatepass"))
        fields[name] = clean if len(clean) <= SHOWN_FIELD_CHARS else f"#{mark_of(clean)}"
    return Fingerprint(whole.hexdigest(), tuple(marks), fields, secret)


def canonical(value: Any) -> str:
    """JSON that does not depend on the order in which a client wrote its keys."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # lone surrogates, numbers beyond 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


def mark_of(text: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=MARK_BYTES).hexdigest()


def _fields(chat: ChatRequest) -> Iterator[tuple[str, Any]]:
    for name, value in chat.body.items():
        if name not in IRRELEVANT and value is not None:
            yield name, value
    if chat.thinking is not None:
        yield "thinking", chat.thinking


def _preview(message: Mapping[str, Any]) -> str:
    text = text_of(message.get("content"))[:PREVIEW_CHARS]
    if not text and message.get("tool_calls"):
        text = canonical(message["tool_calls"])[:PREVIEW_CHARS]
    return text
