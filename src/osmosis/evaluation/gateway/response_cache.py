"""``[advanced] cache = true``: complete answers are kept, and given again to the same request.

The key holds the request (``fingerprint.py``), who answers (provider, address, model; never a
credential), and which call it is: source row, run index, and how many times the sample asked the
very same before. So the runs of one row stay independent draws, and pass@k stays honest, while
the same config run again asks no model at all.

Never kept: answers that were cut off or filtered, failed or abandoned calls, and whatever holds a
secret value, in the request or in the answer. A store that fails costs a hit, never a call.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Sequence
from typing import Any

from osmosis.evaluation.gateway.asked import Asked
from osmosis.evaluation.gateway.chat import ChatRequest, Recalled, Reply
from osmosis.evaluation.gateway.fingerprint import canonical, fingerprint_of
from osmosis.evaluation.gateway.json_codec import dumps, loads
from osmosis.evaluation.gateway.model import Model
from osmosis.evaluation.gateway.openai_compatible import OpenAICompatible
from osmosis.evaluation.plan import ResponseStore, Sink
from osmosis.evaluation.redaction import Redactor

FORMAT = 1
KEY_BYTES = 20
COMPRESSION_LEVEL = 1
COMPLETE = frozenset({"stop", "tool_calls", "function_call"})
"""Reasons of an end that leave nothing out; ``length`` and ``content_filter`` do."""
MAX_ENTRY_BYTES = 4 * 1024 * 1024
PUTS_AT_ONCE = 16
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Of answers on their way to the store; what comes beyond is not kept."""
CLOSE_S = 3.0


class ResponseCache:
    """The store as one gateway uses it."""

    def __init__(self, store: ResponseStore, redactor: Redactor, sink: Sink) -> None:
        self._store = store
        self._redactor = redactor
        self._sink = sink
        self._puts: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(PUTS_AT_ONCE)
        self._waiting_bytes = 0
        self._complained = False

    async def find(self, asked: Asked, model: Model, requested_model: str) -> Reply | None:
        """The answer of the same call of an earlier run."""
        if model.identity is None or asked.fingerprint.secret:
            return None
        entry = await self._lookup(_key(model.identity, asked))
        if entry is None:
            return None
        reply = Reply.of_completion(entry["body"], requested_model)
        reply.recalled = Recalled("cache", entry["latency_s"], entry["cost_usd"])
        return reply

    def keep(
        self, asked: Asked, model: Model, reply: Reply, *, latency_s: float, cost_usd: float | None
    ) -> None:
        """Put the answer away, beside the call; :meth:`close` waits for it."""
        if (
            model.identity is None
            or reply.body is None
            or reply.recalled is not None
            or reply.finish_reason not in COMPLETE
            or asked.fingerprint.secret
        ):
            return
        body = dumps(reply.body)
        text = body.decode()
        if len(body) > MAX_ENTRY_BYTES or self._redactor.text(text) != text:
            return
        head = dumps({"format": FORMAT, "latency_s": latency_s, "cost_usd": cost_usd})
        self._put_later(_key(model.identity, asked), head[:-1] + b',"body":' + body + b"}")

    async def knows(self, model: Model, check: ChatRequest) -> bool:
        """Whether the model answered this check before a run; then no call is spent on it."""
        if model.identity is None:
            return False
        entry = await self._lookup(self._check_key(model.identity, check))
        if entry is None:
            return False
        if isinstance(model, OpenAICompatible):
            model.renames_max_tokens = entry["renames_max_tokens"] is True
        return True

    def learn(self, model: Model, check: ChatRequest) -> None:
        """Remember that the model answered the check, and what was learned by it."""
        if model.identity is not None:
            renames = isinstance(model, OpenAICompatible) and model.renames_max_tokens
            entry = {"format": FORMAT, "renames_max_tokens": renames}
            self._put_later(self._check_key(model.identity, check), dumps(entry))

    async def close(self) -> None:
        """Wait for the answers that are on their way."""
        if self._puts:
            await asyncio.wait(self._puts, timeout=CLOSE_S)
        for task in self._puts:
            task.cancel()

    def _check_key(self, identity: Sequence[str], check: ChatRequest) -> str:
        return _digest("check", *identity, fingerprint_of(check, self._redactor).digest)

    async def _lookup(self, key: str) -> dict[str, Any] | None:
        try:
            packed = await self._store.lookup(key)
            entry: Any = loads(gzip.decompress(packed)) if packed is not None else None
        except Exception as error:  # whatever a store does, the call itself must go on
            self._complain(error)
            return None
        return entry if isinstance(entry, dict) and entry.get("format") == FORMAT else None

    def _put_later(self, key: str, entry: bytes) -> None:
        packed = gzip.compress(entry, COMPRESSION_LEVEL, mtime=0)
        if self._waiting_bytes + len(packed) > MAX_WAITING_BYTES:
            self._complain(RuntimeError("it takes answers more slowly than they come"))
            return
        self._waiting_bytes += len(packed)
        task = asyncio.create_task(self._put(key, packed))
        self._puts.add(task)
        task.add_done_callback(self._puts.discard)

    async def _put(self, key: str, packed: bytes) -> None:
        try:
            async with self._slots:
                await self._store.put(key, packed)
        except Exception as error:  # see _lookup
            self._complain(error)
        finally:
            self._waiting_bytes -= len(packed)

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            self._sink.log(
                "warning",
                "cache",
                f"The response cache fails ({error}); calls go to the model where it does.",
            )


def _key(identity: Sequence[str], asked: Asked) -> str:
    place = asked.place
    return _digest(
        "call", *identity, asked.fingerprint.digest, place.source_row, place.run_index, asked.nth
    )


def _digest(*parts: str | int) -> str:
    return hashlib.blake2b(canonical(parts).encode(), digest_size=KEY_BYTES).hexdigest()
