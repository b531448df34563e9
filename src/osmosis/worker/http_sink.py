"""The sink of a claimed run: records, logs and artifacts to the platform, in batches.

At most ``MAX_UNACKNOWLEDGED`` records wait for the platform's word that they are durable; then
``record`` waits, and with it the admission of new samples. A batch is repeated until it is
acknowledged or the lease is lost; the platform counts a repeated record once.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from osmosis.evaluation.wall_clock import wall_clock
from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import LogBatch, LogEntry, LogLevel, RecordsAck, Stage
from osmosis.wire.samples import SampleRecord
from osmosis.wire.spending import Spending
from osmosis.worker.client import RunClient
from osmosis.worker.errors import LeaseLost, Refused
from osmosis.worker.patience import until_answered

BATCH_WAIT_S = 0.05
BATCH_RECORDS = 64
BATCH_BYTES = 1_000_000
MAX_UNACKNOWLEDGED = 256
MAX_UNACKNOWLEDGED_BYTES = 64_000_000
POST_TIMEOUT_S = 120.0
LOG_WAIT_S = 0.2
LOG_BATCH = 500
MAX_LOG_QUEUE = 10_000
MAX_LOG_CHARS = 16_000

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class _Pending:
    record: SampleRecord
    line: bytes


class HttpSink:
    """``Sink`` over the runner API. Call :meth:`start`; end with :meth:`flush`, :meth:`close`."""

    def __init__(
        self,
        run: RunClient,
        *,
        on_stage: Callable[[Stage], None],
        on_effective: Callable[[dict[str, Any]], None],
        on_acknowledged: Callable[[Sequence[SampleRecord], Spending | None], None],
        on_stop: Callable[[], None],
        on_lease_lost: Callable[[], None],
    ) -> None:
        self._run = run
        self._on_stage = on_stage
        self._on_effective = on_effective
        self._on_acknowledged = on_acknowledged
        self._on_stop = on_stop
        self._on_lease_lost = on_lease_lost
        self._queue: deque[_Pending] = deque()
        self._unacknowledged = 0
        self._unacknowledged_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._work = asyncio.Event()
        self._urgent = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._logs: deque[LogEntry] = deque()
        self._logs_dropped = 0
        self._logs_work = asyncio.Event()
        self._logs_sent = asyncio.Event()
        self._logs_sent.set()
        self._logs_urgent = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.lease_lost = False
        self.failure: RunFailed | None = None

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._ending_on_lease_loss(self._send_records())),
            asyncio.create_task(self._ending_on_lease_loss(self._send_logs())),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- Sink --------------------------------------------------------------------------------

    async def stage(self, stage: Stage) -> None:
        self._on_stage(stage)

    def log(
        self, level: LogLevel, step: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        if len(self._logs) >= MAX_LOG_QUEUE:
            self._logs_dropped += 1
            return
        self._logs.append(
            LogEntry(
                timestamp=wall_clock.now_text(),
                level=level,
                step=step,
                message=message[:MAX_LOG_CHARS],
                details=details,
            )
        )
        self._logs_sent.clear()
        self._logs_work.set()

    async def record(self, record: SampleRecord) -> None:
        line = record.model_dump_json(exclude_none=True).encode() + b"\n"
        while not self._room.is_set():
            await self._room.wait()
            self._raise_failure()
        self._raise_failure()
        self._unacknowledged += 1
        self._unacknowledged_bytes += len(line)
        self._set_room()
        self._settled.clear()
        self._queue.append(_Pending(record, line))
        self._work.set()
        if self._is_full_batch():
            self._urgent.set()

    async def artifact(self, rollout_id: str, relative_path: str, source: Path) -> None:
        try:
            await self._until_done(lambda: self._run.artifact(rollout_id, relative_path, source))
        except Refused as error:
            self.log(
                "warning",
                "results",
                f"The platform did not take the artifact {relative_path}: {error.message}",
                {"rollout_id": rollout_id},
            )

    async def effective(self, values: dict[str, Any]) -> None:
        self._on_effective(values)

    async def flush(self) -> None:
        """Wait until every record and log line so far is with the platform."""
        self._urgent.set()
        await self._settled.wait()
        self._raise_failure()
        self._logs_urgent.set()
        await self._logs_sent.wait()

    # --- records -----------------------------------------------------------------------------

    async def _send_records(self) -> None:
        while True:
            await self._work.wait()
            if not self._is_full_batch():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BATCH_WAIT_S):
                        await self._urgent.wait()
            self._urgent.clear()
            batch = self._take_batch()
            spent = await self._deliver(batch)
            self._unacknowledged -= len(batch)
            self._unacknowledged_bytes -= sum(len(item.line) for item in batch)
            self._on_acknowledged([item.record for item in batch], spent)
            self._set_room()
            if self._queue:
                self._work.set()
            else:
                self._work.clear()
                if not self._unacknowledged:
                    self._settled.set()

    def _is_full_batch(self) -> bool:
        return len(self._queue) >= BATCH_RECORDS or self._unacknowledged_bytes >= BATCH_BYTES

    def _take_batch(self) -> list[_Pending]:
        batch: list[_Pending] = []
        size = 0
        while self._queue and len(batch) < BATCH_RECORDS:
            size += len(self._queue[0].line)
            if batch and size > BATCH_BYTES:
                break
            batch.append(self._queue.popleft())
        return batch

    async def _deliver(self, batch: list[_Pending]) -> Spending | None:
        """What the run has spent by now, as the platform counts it."""
        try:
            ack = await self._post(b"".join(item.line for item in batch))
        except Refused as error:
            if len(batch) > 1:
                return [await self._deliver([item]) for item in batch][-1]
            ack = await self._deliver_reduced(batch[0].record, error)
        if ack.stop:
            self._on_stop()
        return ack.spent

    async def _deliver_reduced(self, record: SampleRecord, error: Refused) -> RecordsAck:
        """A single record that the platform will not take is sent without its bulk."""
        self.log(
            "warning",
            "results",
            f"The platform did not take the record of row {record.row_index}, run "
            f"{record.run_index} ({error.message}); its trajectory and output are left out.",
        )
        bare = record.model_copy(
            update={"trajectory": None, "output": None, "calls": [], "kept_calls": None}
        )
        try:
            return await self._post(bare.model_dump_json(exclude_none=True).encode() + b"\n")
        except Refused as again:
            self._give_up(
                RunFailed(
                    "internal",
                    f"The platform refuses the record of row {record.row_index}, run "
                    f"{record.run_index}: {again.message}",
                )
            )
            raise

    async def _post(self, body: bytes) -> RecordsAck:
        return await self._until_done(lambda: self._run.records(body, timeout_s=POST_TIMEOUT_S))

    def _set_room(self) -> None:
        full = (
            self._unacknowledged >= MAX_UNACKNOWLEDGED
            or self._unacknowledged_bytes >= MAX_UNACKNOWLEDGED_BYTES
        )
        if full:
            self._room.clear()
        else:
            self._room.set()

    def _give_up(self, failure: RunFailed) -> None:
        """Nothing can be recorded any more: whoever waits for that must learn it."""
        self.failure = self.failure or failure
        self._room.set()
        self._settled.set()
        self._logs_sent.set()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    # --- logs --------------------------------------------------------------------------------

    async def _send_logs(self) -> None:
        while True:
            await self._logs_work.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOG_WAIT_S):
                    await self._logs_urgent.wait()
            self._logs_urgent.clear()
            count = min(len(self._logs), LOG_BATCH)
            entries = [self._logs.popleft() for _ in range(count)]
            if self._logs_dropped:
                entries.append(_dropped_entry(self._logs_dropped))
                self._logs_dropped = 0
            # Log lines that the platform cannot take are not worth a run.
            with contextlib.suppress(Refused):
                await self._post_logs(LogBatch(entries=entries, id=secrets.token_hex(8)))
            if not self._logs:
                self._logs_work.clear()
                self._logs_sent.set()

    async def _post_logs(self, batch: LogBatch) -> None:
        await self._until_done(lambda: self._run.logs(batch))

    # --- both --------------------------------------------------------------------------------

    async def _until_done(self, call: Callable[[], Awaitable[T]]) -> T:
        """The answer of ``call``; losing the lease ends everything here."""
        try:
            return await until_answered(call)
        except LeaseLost:
            self.lease_lost = True
            self._give_up(RunFailed("worker_lost", "The run belongs to another worker now."))
            self._on_lease_lost()
            raise

    async def _ending_on_lease_loss(self, work: Awaitable[None]) -> None:
        with contextlib.suppress(LeaseLost, Refused):
            await work


def _dropped_entry(count: int) -> LogEntry:
    return LogEntry(
        timestamp=wall_clock.now_text(),
        level="warning",
        step="log",
        message=f"{count} log lines were dropped: they came faster than they could be sent.",
    )
