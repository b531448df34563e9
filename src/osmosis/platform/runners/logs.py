"""Log lines that a worker sends for a run, bounded per run."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import func, insert, select

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import RunLog
from osmosis.platform.evals.lifecycle import run_topic
from osmosis.platform.platform import Platform
from osmosis.platform.runners.leases import leased_run
from osmosis.wire.runner import LogBatch, LogEntry

LINES_PER_RUN = 20_000
MESSAGE_CHARS = 16_384
DETAILS_BYTES = 16_384
REMEMBERED_RUNS = 1024
REMEMBERED_BATCHES = 4096


class RunLogs:
    """Stores log lines; remembers how many each active run has."""

    def __init__(self, platform: Platform, lines_per_run: int = LINES_PER_RUN) -> None:
        self._platform = platform
        self._limit = lines_per_run
        self._lines: OrderedDict[str, int] = OrderedDict()
        self._seen: OrderedDict[str, None] = OrderedDict()

    async def add(self, run_id: str, lease_token: str | None, batch: LogBatch) -> None:
        """Store a batch; once the run has its fill, one line says so and the rest is dropped."""
        async with self._platform.db.read() as session:
            await leased_run(session, run_id, lease_token)
            if run_id not in self._lines:
                count = select(func.count()).where(RunLog.run_id == run_id)
                self._lines[run_id] = (await session.execute(count)).scalar_one()
        if batch.id is not None and batch.id in self._seen:
            return
        room = self._limit - self._lines[run_id]
        if room <= 0 or not batch.entries:
            return
        rows = [_row(run_id, entry) for entry in batch.entries[:room]]
        if len(batch.entries) >= room:
            rows.append(_row(run_id, _full(self._limit)))
        async with self._platform.db.write() as session:
            await leased_run(session, run_id, lease_token)
            await session.execute(insert(RunLog), rows)
        if batch.id is not None:
            self._seen[batch.id] = None
            if len(self._seen) > REMEMBERED_BATCHES:
                self._seen.popitem(last=False)
        self._lines[run_id] = self._lines.get(run_id, 0) + len(rows)
        self._lines.move_to_end(run_id)
        if len(self._lines) > REMEMBERED_RUNS:
            self._lines.popitem(last=False)
        self._platform.events.publish(run_topic(run_id))


def _row(run_id: str, entry: LogEntry) -> dict[str, Any]:
    details = entry.details
    if details is not None and len(orjson.dumps(details, default=str)) > DETAILS_BYTES:
        details = {"omitted": "the details were too long"}
    message = entry.message
    if len(message) > MESSAGE_CHARS:
        message = f"{message[:MESSAGE_CHARS]} … ({len(message) - MESSAGE_CHARS} more characters)"
    return {
        "run_id": run_id,
        "timestamp": _time(entry.timestamp),
        "level": entry.level,
        "step": entry.step,
        "message": message,
        "details": details,
    }


def _time(text: str) -> datetime:
    """The worker's own time of the line; ours when it is not readable."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return utc_now()
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _full(limit: int) -> LogEntry:
    return LogEntry(
        timestamp=utc_now().isoformat(),
        level="warning",
        step="log",
        message=f"The log has {limit} lines, the most a run may have. Later lines are dropped.",
    )
