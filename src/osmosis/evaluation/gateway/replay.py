"""Adapter 4: ``replay/RUN``, the answers of an earlier run to the very same calls.

No model is asked and nothing is spent. A request that the run did not answer is a typed failure,
``replay_miss``, that says what differs; a call that failed there fails here in the same way.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from pathlib import Path

from osmosis.evaluation.gateway.chat import ChatRequest, Recalled, Reply
from osmosis.evaluation.gateway.event_stream import EventStream
from osmosis.evaluation.gateway.failures import UpstreamFailure
from osmosis.evaluation.gateway.kept_calls import KeptFailure
from osmosis.evaluation.gateway.replay_book import ReplayBook
from osmosis.evaluation.gateway.synthetic_stream import tell
from osmosis.evaluation.plan import KeptSample, ReplaySource
from osmosis.wire.errors import RunFailed

MISS_STATUS = 404
MISS = "replay_miss"


class ReplayModel:
    """One replayed run, read when the model is prepared."""

    provider = "replay"
    scripted = False
    base_url = None
    identity = None
    price_name = None

    def __init__(self, path: str, source: ReplaySource, directory: Path) -> None:
        self.path = path
        self.source = source
        self.limiter_key = ("replay", path)
        self._directory = directory
        self._book: ReplayBook | None = None

    async def prepare(self) -> ReplayBook:
        if self._book is None:
            samples = await self.source.fetch()
            self._book = await asyncio.to_thread(self._read, samples)
        if not self._book.samples:
            raise RunFailed(
                "replay_unavailable",
                f"The run '{self.source.run_name}' has no kept calls to replay.",
                hint="Runs that were imported, or recorded before calls were kept, have none. "
                "Run its config again, and replay that run.",
            )
        return self._book

    @property
    def summary(self) -> str:
        """What the run's log says of it."""
        source, book = self.source, self._book
        text = f"{self.path} answers from the run '{source.run_name}' of {source.model_path}"
        if book is None:
            return f"{text}."
        damaged = f"; those of {book.damaged} are damaged" if book.damaged else ""
        return f"{text}: the kept calls of {book.samples} samples{damaged}. No model is asked."

    async def complete(self, chat: ChatRequest) -> Reply:
        book = self._book or await self.prepare()
        asked = chat.asked
        if asked is None:
            raise UpstreamFailure(MISS, "A replay answers calls of samples alone.")
        found = book.find(chat.route, asked)
        if found is None:
            place = asked.place
            raise UpstreamFailure(
                MISS,
                f"{chat.route.capitalize()} call {asked.number + 1} of source row "
                f"{place.source_row}, run {place.run_index} has no answer in the run "
                f"'{self.source.run_name}': {book.explain(chat.route, asked)}.",
                status=MISS_STATUS,
                type=MISS,
                code=MISS,
            )
        if isinstance(found.outcome, KeptFailure):
            failure = found.outcome
            text = f"As in the run '{self.source.run_name}': {failure.message}"
            raise UpstreamFailure(failure.kind, text, status=failure.status)
        reply = Reply.of_completion(found.outcome, chat.requested_model)
        reply.recalled = Recalled("replay", found.latency_s, found.cost_usd)
        return reply

    async def stream(self, chat: ChatRequest, out: EventStream) -> Reply:
        reply = await self.complete(chat)
        await tell(reply, out)
        return reply

    async def close(self) -> None:
        if self._book is not None:
            await asyncio.to_thread(self._book.close)
            self._book = None

    def _read(self, samples: Iterable[KeptSample]) -> ReplayBook:
        # Policy and judge may replay the same run, each from a file of its own.
        book = ReplayBook(self._directory / f"replay-{secrets.token_hex(4)}.db")
        book.fill(samples)
        return book
