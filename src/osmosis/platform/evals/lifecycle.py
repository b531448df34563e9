"""The states of a run and the only ways between them.

    pending ──claim──> running ──finish──> finished | failed | stopped
       └──────stop────────────────────────────────────> stopped
       ^                                                   │
       └────────────────────── retry ──────────────────────┘

A run that ends loses the values that were provided for it alone, and its lease can write no more.
Every function here runs inside a write transaction of the caller.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Run, RunLog
from osmosis.wire.runner import LogLevel, RunError

ACTIVE = ("pending", "running")


def end_run(
    run: Run,
    status: str,
    *,
    stop_reason: str | None = None,
    stop_message: str | None = None,
    error: RunError | None = None,
    summary: dict[str, Any] | None = None,
) -> None:
    """Bring an active run to a terminal status."""
    run.status = status
    run.completed_at = now_of(run)
    run.stop_reason = stop_reason
    run.stop_message = stop_message
    run.error = error.model_dump(exclude_none=True) if error else None
    run.summary = summary
    run.provided_cipher = None
    run.lease_expires_at = None
    run.in_flight = None
    run.waiting_for = None
    if status == "finished":
        run.stage = "summarizing"


def now_of(run: Run) -> datetime:
    """Now, and never before what is known of this life of the run: the clock may have been set
    back since."""
    return max(utc_now(), run.started_at or run.reopened_at or run.created_at)


def reopen_run(run: Run) -> None:
    """Bring a run that has ended back to the queue, under a new generation."""
    run.status, run.stage = "pending", "queued"
    run.generation += 1
    run.claims = 0
    run.reopened_at = max(utc_now(), run.created_at)
    run.started_at = run.completed_at = run.stop_requested_at = None
    run.stop_reason = run.stop_message = run.error = run.summary = None
    run.lease_token = run.lease_owner = run.lease_expires_at = None


def note(
    session: AsyncSession,
    run_id: str,
    step: str,
    message: str,
    *,
    level: LogLevel = "info",
    details: dict[str, Any] | None = None,
) -> None:
    """A line of the platform's own in the run's log."""
    session.add(RunLog(run_id=run_id, level=level, step=step, message=message, details=details))


def run_topic(run_id: str) -> str:
    """The topic that watchers of one run wait for."""
    return f"run:{run_id}"


CLAIMABLE = "runs"
"""The topic that claimers wait for: some run may be claimable now."""

DELETED = "deleted-runs"
"""The topic of the sweeper: some run was deleted."""
