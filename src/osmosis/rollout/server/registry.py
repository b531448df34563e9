"""Every rollout the server knows: its status, its lease, its result until nobody needs it.

    queued -> running -> grading -> success | failure | cancelled

The lease runs from admission and from each arrival of a valid poll. When it ends before the
rollout does, its controller is taken for dead: the result is a failure and the work is cancelled.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from osmosis.rollout.server.results import result_body
from osmosis.rollout.types.status import RolloutErrorCategory, RolloutStatus

# Results beyond this size make room, those that were fetched longest ago first.
RETAINED_MAX_BYTES = 16 * 1024 * 1024
ENTRY_BYTES = 4 * 1024
"""What an entry takes besides its result."""
# A lease timer this late means that user code blocked the loop and that polls wait unread.
LOOP_LAG_S = 1.0
LAG_GRACE_S = 5.0

logger = logging.getLogger("osmosis.rollout")


@dataclass(frozen=True)
class Timing:
    """How long a poll waits, a lease lasts and a result is kept."""

    result_wait_s: float
    lease_s: float
    retention_s: float


@dataclass(slots=True, eq=False)
class Entry:
    """One rollout. ``body`` is the finished result as it travels."""

    rollout_id: str
    token_hash: bytes
    last_seen: float
    status: RolloutStatus = RolloutStatus.QUEUED
    body: bytes | None = None
    fetched: bool = False
    retired_at: float = 0.0
    task: asyncio.Task[None] | None = None
    lease_timer: asyncio.TimerHandle | None = None
    waiters: list[asyncio.Future[None]] = field(default_factory=list)


class Registry:
    """Rollouts by id. All methods run on the server's event loop."""

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        self.accepting = True
        self._entries: dict[str, Entry] = {}
        self._active: dict[str, Entry] = {}
        self._retired: OrderedDict[str, Entry] = OrderedDict()
        self._retained_bytes = 0
        self._sweep_timer: asyncio.TimerHandle | None = None

    @property
    def active_count(self) -> int:
        """How many rollouts have no result yet."""
        return len(self._active)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that still run, those of cancelled rollouts included."""
        return [
            entry.task
            for entry in self._entries.values()
            if entry.task is not None and not entry.task.done()
        ]

    def get(self, rollout_id: str) -> Entry | None:
        return self._entries.get(rollout_id)

    def admit(self, rollout_id: str, *, leased: bool) -> tuple[Entry, str]:
        """Register a new rollout; answers it with the token of its lease."""
        loop = asyncio.get_running_loop()
        token = secrets.token_urlsafe(32)
        entry = Entry(rollout_id, _digest(token), loop.time())
        self._entries[rollout_id] = self._active[rollout_id] = entry
        if leased:
            self._arm_lease(entry, entry.last_seen + self.timing.lease_s)
        return entry, token

    def start(self, entry: Entry, task: asyncio.Task[None]) -> None:
        """Say which task executes the rollout."""
        entry.task = task
        task.add_done_callback(lambda done: self._retire(entry, done))

    def token_fits(self, entry: Entry, token: str) -> bool:
        return hmac.compare_digest(entry.token_hash, _digest(token))

    async def wait(self, entry: Entry, *, until_finished: bool) -> None:
        """Return when the status differs from now, or when the poll has waited long enough."""
        loop = asyncio.get_running_loop()
        entry.last_seen = arrived = loop.time()
        before = entry.status
        while entry.body is None and (until_finished or entry.status is before):
            left_s = arrived + self.timing.result_wait_s - loop.time()
            if left_s <= 0:
                return
            waiter = loop.create_future()
            timer = loop.call_later(left_s, _release, waiter)
            entry.waiters.append(waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                if waiter in entry.waiters:
                    entry.waiters.remove(waiter)

    def set_status(self, entry: Entry, status: RolloutStatus) -> None:
        """Move an unfinished rollout on to another phase."""
        if entry.body is None and entry.status is not status:
            entry.status = status
            _wake(entry)

    def finish(self, entry: Entry, status: RolloutStatus, body: bytes) -> bool:
        """Publish the result; False when the rollout already has one, which then stands."""
        if entry.body is not None:
            return False
        entry.status, entry.body = status, body
        if entry.lease_timer is not None:
            entry.lease_timer.cancel()
            entry.lease_timer = None
        del self._active[entry.rollout_id]
        _wake(entry)
        return True

    def cancel(
        self, *, ids: Iterable[str] | None = None, prefix: str | None = None
    ) -> dict[str, str]:
        """Cancel by id, by prefix or, with neither, all; answers what became of each."""
        if ids is None:
            ids = [known for known in self._entries if known.startswith(prefix or "")]
        return {rollout_id: self._cancel_one(rollout_id) for rollout_id in ids}

    def _cancel_one(self, rollout_id: str) -> str:
        entry = self._active.get(rollout_id)
        if entry is None:
            return "not_found"
        queued = entry.status is RolloutStatus.QUEUED
        self._end(entry, RolloutStatus.CANCELLED, None, "the rollout was cancelled")
        return "cancelled_queued" if queued else "cancelled_running"

    def _end(
        self,
        entry: Entry,
        status: RolloutStatus,
        category: RolloutErrorCategory | None,
        message: str,
    ) -> None:
        self.finish(entry, status, result_body(entry.rollout_id, status, None, message, category))
        if entry.task is not None:
            entry.task.cancel()

    def _arm_lease(self, entry: Entry, at: float, *, graced: bool = False) -> None:
        entry.lease_timer = asyncio.get_running_loop().call_at(
            at, self._check_lease, entry, at, graced
        )

    def _check_lease(self, entry: Entry, planned: float, graced: bool) -> None:
        now = asyncio.get_running_loop().time()
        due = entry.last_seen + self.timing.lease_s
        if now < due:
            self._arm_lease(entry, due)
        elif not graced and now - planned > LOOP_LAG_S:
            self._arm_lease(entry, now + LAG_GRACE_S, graced=True)
        else:
            self._end(
                entry,
                RolloutStatus.FAILURE,
                RolloutErrorCategory.LEASE_EXPIRED,
                f"the controller did not poll for {self.timing.lease_s:g} s",
            )
            logger.warning("Rollout %s was given up: nobody polls for it", entry.rollout_id)

    def _retire(self, entry: Entry, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("Rollout %s broke the server's code", entry.rollout_id, exc_info=error)
        if entry.body is None:
            self._end(
                entry,
                RolloutStatus.FAILURE,
                RolloutErrorCategory.INTERNAL_ERROR,
                "the rollout server failed to run this rollout; see its log",
            )
        entry.task = None
        entry.retired_at = asyncio.get_running_loop().time()
        self._retired[entry.rollout_id] = entry
        self._retained_bytes += ENTRY_BYTES + len(entry.body or b"")
        self._sweep()

    def _sweep(self) -> None:
        """Forget results whose time is over, and fetched ones while memory is short."""
        loop = asyncio.get_running_loop()
        while self._retired:
            oldest = next(iter(self._retired.values()))
            expires_at = oldest.retired_at + self.timing.retention_s
            if loop.time() >= expires_at:
                self._forget(oldest)
                continue
            if self._sweep_timer is None:
                self._sweep_timer = loop.call_at(expires_at, self._on_sweep_timer)
            break
        while self._retained_bytes > RETAINED_MAX_BYTES:
            fetched = next((entry for entry in self._retired.values() if entry.fetched), None)
            if fetched is None:
                break
            self._forget(fetched)

    def _on_sweep_timer(self) -> None:
        self._sweep_timer = None
        self._sweep()

    def _forget(self, entry: Entry) -> None:
        del self._retired[entry.rollout_id]
        del self._entries[entry.rollout_id]
        self._retained_bytes -= ENTRY_BYTES + len(entry.body or b"")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _wake(entry: Entry) -> None:
    waiters, entry.waiters = entry.waiters, []
    for waiter in waiters:
        _release(waiter)
