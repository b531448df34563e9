"""One rollout execution's own link to the gateway: its URLs, its bearers, its calls."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

from osmosis.evaluation.gateway.asked import Asked, Askings, Place
from osmosis.evaluation.gateway.chat import ChatRequest
from osmosis.evaluation.gateway.fingerprint import fingerprint_of
from osmosis.evaluation.gateway.kept_calls import CallKeeper
from osmosis.evaluation.gateway.reasoning import ReasoningMemory
from osmosis.evaluation.redaction import Redactor
from osmosis.wire.samples import ModelCall, Route

BEARER_BYTES = 24


class GatewaySession:
    """Made by ``Gateway.open_session``. Policy and judge have separate URLs and bearers."""

    def __init__(
        self,
        rollout_id: str,
        root_url: str,
        *,
        place: Place,
        redactor: Redactor,
        with_judge: bool,
        on_close: Callable[[GatewaySession], None],
        on_call: Callable[[ModelCall], None] | None = None,
    ) -> None:
        self.rollout_id = rollout_id
        self.chat_completions_url = f"{root_url}/v1/rollouts/{rollout_id}"
        self.api_key = secrets.token_urlsafe(BEARER_BYTES)
        self.judge_completions_url = f"{root_url}/v1/judges/{rollout_id}" if with_judge else None
        self.judge_api_key = secrets.token_urlsafe(BEARER_BYTES) if with_judge else None
        self.bearers: dict[Route, str | None] = {
            "policy": self.api_key,
            "judge": self.judge_api_key,
        }
        self.reasoning: dict[Route, ReasoningMemory] = {
            "policy": ReasoningMemory(),
            "judge": ReasoningMemory(),
        }
        self.kept = CallKeeper(redactor)
        self.closed = False
        self._redactor = redactor
        self._askings: dict[Route, Askings] = {"policy": Askings(place), "judge": Askings(place)}
        self._on_close = on_close
        self._on_call = on_call
        self._calls: list[ModelCall | None] = []
        self._running: dict[asyncio.Task[object], tuple[Route, float]] = {}
        self._all_ended: asyncio.Future[None] | None = None

    @property
    def calls(self) -> list[ModelCall]:
        """The calls that have ended, in the order in which they were made."""
        return [call for call in self._calls if call is not None]

    @property
    def kept_calls(self) -> str | None:
        """Requests and answers, packed for the record; ask once the session is closed."""
        return self.kept.packed()

    @property
    def calls_in_flight(self) -> int:
        return len(self._running)

    def close(self) -> None:
        """No more calls: new ones answer 410, running ones are cancelled (and recorded)."""
        if self.closed:
            return
        self.closed = True
        self._on_close(self)
        for task in self._running:
            task.cancel()

    async def calls_ended(self, limit_s: float) -> None:
        """Wait until the running calls are recorded, for so long at most."""
        if not self._running:
            return
        self._all_ended = asyncio.get_running_loop().create_future()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._all_ended

    def ask(self, chat: ChatRequest) -> Asked:
        """Place a request that has its defaults among the sample's others."""
        return self._askings[chat.route].ask(fingerprint_of(chat, self._redactor))

    def unanswered(self, route: Route, asked: Asked) -> None:
        self._askings[route].unanswered(asked)

    def oldest_call(self) -> tuple[Route, float] | None:
        """The route and start (``time.monotonic``) of the call that has been open for longest."""
        return next(iter(self._running.values()), None)

    def begin(self, task: asyncio.Task[object], route: Route) -> int:
        """Register a running call; its number is for :meth:`end`."""
        self._running[task] = route, time.monotonic()
        self._calls.append(None)
        return len(self._calls) - 1

    def end(self, number: int, task: asyncio.Task[object], call: ModelCall) -> None:
        self._running.pop(task, None)
        self._calls[number] = call
        if self._on_call is not None:
            self._on_call(call)
        if self._all_ended is not None and not (self._running or self._all_ended.done()):
            self._all_ended.set_result(None)
