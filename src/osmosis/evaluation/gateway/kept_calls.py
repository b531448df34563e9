"""What a sample asked and what it was answered, kept with its record for a later replay.

One JSON object a line, gzip members of up to ``MEMBER_BYTES`` of lines, base64 on the wire:

    r  route            d  digest of the request       a  the answer, a chat completion
    i  number, n  nth   (asked.py)                     w  true: the answer held a secret value
    m  messages, each [role, mark, preview]            e  a failure: [kind, status, message]
    k  so many messages are those of the line before   l  latency in seconds
    f  other fields, where they differ from before     c  cost in USD, null when unknown

Messages and fields serve to tell what differs when a request is not found; they cost little, for
a conversation that grows adds only its new messages. The last line may be ``{"dropped": N}``.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from osmosis.evaluation.gateway.asked import Asked
from osmosis.evaluation.gateway.chat import Reply
from osmosis.evaluation.gateway.fingerprint import Fingerprint, MessageMark
from osmosis.evaluation.gateway.json_codec import dumps, loads
from osmosis.evaluation.redaction import Redactor
from osmosis.wire.deflate import deflate
from osmosis.wire.samples import Route

MEMBER_BYTES = 64 * 1024
MAX_BYTES = 8 * 1024 * 1024
"""Of one sample, compressed; calls beyond it are counted and not kept."""
COMPRESSION_LEVEL = 1
MAX_MESSAGE_CHARS = 500
ABANDONED = frozenset({"client_disconnected", "session_closed"})
"""Kinds of calls that had no end of their own."""
MAX_READ_BYTES = 1024 * 1024 * 1024


class KeptFailure(NamedTuple):
    """How a call ended that has no answer."""

    kind: str
    status: int
    message: str


@dataclass(frozen=True, slots=True)
class KeptCall:
    """One call as it was kept. ``answer`` None: it failed, or its answer held a secret value.

    ``failure`` None beside ``error_kind``: nobody waited for the end of the call.
    """

    route: Route
    number: int
    nth: int
    fingerprint: Fingerprint
    answer: dict[str, Any] | None
    withheld: bool
    error_kind: str | None
    failure: KeptFailure | None
    latency_s: float
    cost_usd: float | None


class CallKeeper:
    """Collects the calls of one session."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before: dict[Route, Fingerprint] = {}
        self._lines: list[bytes] = []
        self._pending_bytes = 0
        self._members: list[bytes] = []
        self._packed_bytes = 0
        self._dropped = 0

    def keep(
        self,
        route: Route,
        asked: Asked,
        reply: Reply | None,
        *,
        latency_s: float,
        cost_usd: float | None,
        failure: KeptFailure | None,
    ) -> None:
        """Note one call that has ended."""
        if self._packed_bytes + self._pending_bytes > MAX_BYTES:
            self._dropped += 1
            return
        seen, before = asked.fingerprint, self._before.get(route)
        self._before[route] = seen
        shared = _shared(before, seen)
        line: dict[str, Any] = {
            "r": route,
            "i": asked.number,
            "n": asked.nth,
            "d": seen.digest,
            "k": shared,
            "m": [list(mark) for mark in seen.messages[shared:]],
            "l": round(latency_s, 6),
            "c": cost_usd,
        }
        if before is None or before.fields != seen.fields:
            line["f"] = seen.fields
        if failure is not None:
            line["e"] = [*failure[:2], failure.message[:MAX_MESSAGE_CHARS]]
        answer = None
        if "e" not in line and reply is not None and reply.body is not None:
            answer = dumps(reply.body)
            text = answer.decode()
            if self._redactor.text(text) != text:
                line["w"], answer = True, None
        told = dumps(line)
        self._add((told[:-1] + b',"a":' + answer + b"}" if answer else told) + b"\n")

    def packed(self) -> str | None:
        """Everything so far, for the record; None when there was no call."""
        if self._dropped:
            self._lines.append(dumps({"dropped": self._dropped}) + b"\n")
        self._pack()
        return base64.b64encode(b"".join(self._members)).decode() if self._members else None

    def _add(self, line: bytes) -> None:
        self._lines.append(line)
        self._pending_bytes += len(line)
        if self._pending_bytes >= MEMBER_BYTES:
            self._pack()

    def _pack(self) -> None:
        if self._lines:
            member = deflate(b"".join(self._lines), COMPRESSION_LEVEL, gzip=True)
            self._members.append(member)
            self._packed_bytes += len(member)
            self._lines, self._pending_bytes = [], 0


def read_kept(packed: bytes) -> Iterator[KeptCall]:
    """The calls in ``packed``, as :meth:`CallKeeper.packed` makes it; ValueError when damaged."""
    before: dict[Route, Fingerprint] = {}
    for raw in _unpack(packed).splitlines():
        line: Any = loads(raw)
        try:
            if "dropped" in line:
                continue
            route: Route = line["r"]
            call = _call(line, before.get(route))
        except (KeyError, TypeError) as error:
            raise ValueError(f"a kept call lacks {error}") from None
        before[route] = call.fingerprint
        yield call


def _call(line: Mapping[str, Any], before: Fingerprint | None) -> KeptCall:
    marks = tuple(MessageMark(*mark) for mark in line["m"])
    shared = before.messages[: line["k"]] if before else ()
    fields = line.get("f", before.fields if before else {})
    failure = KeptFailure(*line["e"]) if "e" in line else None
    return KeptCall(
        route=line["r"],
        number=line["i"],
        nth=line["n"],
        fingerprint=Fingerprint(line["d"], shared + marks, fields, secret=False),
        answer=line.get("a"),
        withheld="w" in line,
        error_kind=failure.kind if failure else None,
        failure=None if failure is None or failure.kind in ABANDONED else failure,
        latency_s=line["l"],
        cost_usd=line["c"],
    )


def _shared(before: Fingerprint | None, seen: Fingerprint) -> int:
    """How many messages the request begins with that the one before began with too."""
    count = 0
    if before is not None:
        for old, new in zip(before.messages, seen.messages, strict=False):
            if old != new:
                break
            count += 1
    return count


def _unpack(packed: bytes) -> bytes:
    parts: list[bytes] = []
    size, rest = 0, packed
    while rest:
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(rest, MAX_READ_BYTES - size)
        except zlib.error as error:
            raise ValueError(f"the kept calls are damaged: {error}") from None
        if not member.eof:
            raise ValueError("the kept calls are cut off")
        parts.append(part)
        size += len(part)
        rest = member.unused_data
    return b"".join(parts)
