"""Who executes a run: claimed by compare-and-set, kept by heartbeats, lost by silence.

Every claim draws a new token. Whoever does not hold the run's present token can change nothing,
so a worker that was given up for dead and comes back does no harm: it is told ``LEASE_LOST``.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, or_, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from osmosis.platform.db.base import steady_now
from osmosis.platform.db.models import Run
from osmosis.platform.errors import is_out_of_space
from osmosis.platform.evals.ended import tell_end
from osmosis.platform.evals.lifecycle import end_run, note, now_of, run_topic
from osmosis.platform.platform import Platform
from osmosis.platform.runners.worker_id import is_dead
from osmosis.wire.errors import Conflict
from osmosis.wire.runner import Heartbeat, HeartbeatRequest, RunError

log = logging.getLogger("osmosis.platform.runs")

LEASE_S = 15.0
# A heartbeat that changes nothing visible is written only this long after the last write: it
# comes every second, and each write costs an fsync.
QUIET_HEARTBEAT_S = 3.0
# After this many claims in a row without one new sample the run is at fault, not the workers.
MAX_CLAIMS_WITHOUT_PROGRESS = 6


class LeaseLost(Conflict):
    """The run belongs to somebody else now, or has ended; the worker must drop it."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"The lease on the run {run_id} is no longer yours.", platform_code="LEASE_LOST"
        )


def claimable(
    now: datetime, worker_id: str | None = None, holding: Collection[str] | None = None
) -> Any:
    """The condition of a run that may be claimed.

    ``holding`` are the runs that the worker knows it has: another one that is leased to it was
    given in an answer that got lost, and is its own to claim again at once.
    """
    free = [Run.lease_expires_at.is_(None), Run.lease_expires_at < now]
    if worker_id is not None and holding is not None:
        free.append(and_(Run.lease_owner == worker_id, Run.id.not_in(holding)))
    return and_(
        Run.deleted_at.is_(None),
        Run.stop_requested_at.is_(None),
        or_(Run.status == "pending", and_(Run.status == "running", or_(*free))),
    )


async def claim_next(
    platform: Platform, worker_id: str, holding: Collection[str] | None = None
) -> Run | None:
    """The oldest claimable run, now leased to the worker; None when there is none."""
    while True:
        waiting = select(Run.id).where(claimable(steady_now(), worker_id, holding)).limit(1)
        if await platform.db.first(waiting) is None:
            return None
        run, ours = await _claim_one(platform, worker_id, holding)
        if run is None:
            return None
        if not ours:
            tell_end(platform, run)
        else:
            ids = {"run_id": run.id, "run": run.name, "generation": run.generation}
            log.info("The run is claimed.", extra={**ids, "worker_id": worker_id})
        platform.events.publish(run_topic(run.id))
        if ours:
            return run


async def _claim_one(
    platform: Platform, worker_id: str, holding: Collection[str] | None
) -> tuple[Run | None, bool]:
    """Claim the oldest run, or end it when it was claimed in vain too often (then not ours)."""
    async with platform.db.write() as session:
        query = (
            select(Run)
            .options(defer(Run.selection, raiseload=True))
            .where(claimable(steady_now(), worker_id, holding))
            .order_by(Run.created_at, Run.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        run = (await session.execute(query)).scalar_one_or_none()
        if run is None:
            return None, False
        if run.claims >= MAX_CLAIMS_WITHOUT_PROGRESS:
            _give_up(session, run)
            return run, False
        if run.lease_owner == worker_id:
            platform.metrics.claims.labels("again").inc()
            text = f"The worker {worker_id} took the run again: the answer to its claim was lost."
            note(session, run.id, "worker", text, level="warning")
        elif run.lease_owner is not None:
            platform.metrics.claims.labels("takeover").inc()
            reason = "died" if is_dead(run.lease_owner) else "silent"
            platform.metrics.leases_lost.labels(reason).inc()
            note(
                session,
                run.id,
                "worker",
                f"The worker {run.lease_owner} stopped answering. {worker_id} goes on from "
                f"{run.sample_count} recorded samples.",
                level="warning",
            )
        else:
            platform.metrics.claims.labels("first").inc()
            note(session, run.id, "worker", f"The worker {worker_id} took the run.")
        run.status = "running"
        run.stage = "cloning"
        run.claims += 1
        run.started_at = run.started_at or now_of(run)
        run.lease_token = secrets.token_urlsafe(24)
        run.lease_owner = worker_id
        run.lease_expires_at = steady_now() + timedelta(seconds=LEASE_S)
        run.in_flight = run.waiting_for = None
        return run, True


def _give_up(session: AsyncSession, run: Run) -> None:
    message = (
        f"{run.claims} workers in a row took the run and were lost before they recorded a "
        "single new sample."
    )
    hint = "Look at the run's log and the worker's log; out of memory is the usual cause."
    error = RunError(kind="worker_lost", message=message, hint=hint)
    end_run(run, "failed", error=error)
    note(session, run.id, "worker", f"{message} {hint}", level="error")


async def leased_run(
    session: AsyncSession, run_id: str, lease_token: str | None, *, lock: bool = False
) -> Run:
    """The running run, if the token is its present one; raises :class:`LeaseLost` otherwise.

    Without its selection: a list of a hundred thousand rows is no matter for a heartbeat.
    """
    query = select(Run).options(defer(Run.selection, raiseload=True)).where(Run.id == run_id)
    run = (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()
    if run is None or run.status != "running" or not holds(run, lease_token):
        raise LeaseLost(run_id)
    return run


class LeasedRow(NamedTuple):
    """What taking in records needs to know of a run."""

    status: str
    lease_token: str | None
    stop_requested_at: datetime | None
    selected_rows: int
    n: int
    pass_threshold: float
    sample_count: int
    name: str
    generation: int
    rollout: str
    model_path: str
    spent_tokens: int
    spent_usd: float
    regrade: dict[str, Any] | None


_LEASED_ROW = (
    select(*(getattr(Run, name) for name in LeasedRow._fields))
    .where(Run.id == bindparam("leased_run"))
    .with_for_update()
)


def leased_row(connection: Connection, run_id: str, lease_token: str | None) -> LeasedRow:
    """As :func:`leased_run`, locked, for a plain connection."""
    found = connection.execute(_LEASED_ROW, {"leased_run": run_id}).first()
    if found is None:
        raise LeaseLost(run_id)
    run = LeasedRow(*found)
    if run.status != "running" or not holds(run, lease_token):
        raise LeaseLost(run_id)
    return run


def holds(run: Run | LeasedRow, lease_token: str | None) -> bool:
    """Whether the token is the run's present one."""
    return (
        run.lease_token is not None
        and lease_token is not None
        and secrets.compare_digest(run.lease_token.encode(), lease_token.encode())
    )


async def heartbeat(
    platform: Platform, run_id: str, lease_token: str | None, request: HeartbeatRequest
) -> Heartbeat:
    """Extend the lease and take in what the worker says about itself."""
    async with platform.db.read() as session:
        run = await leased_run(session, run_id, lease_token)
    if request.loop_lag_ms is not None:
        platform.metrics.shard_lag(run_id, request.loop_lag_ms / 1000)
    left_s = _left_s(run)
    if _worth_writing(run, request):
        try:
            left_s = await _extend(platform, run_id, lease_token, request)
        except DBAPIError as error:
            if not is_out_of_space(error):
                raise
            # Nobody can claim while nothing can be written: the worker may keep what it has.
            platform.storage.failed()
            left_s = LEASE_S
        platform.events.publish(run_topic(run_id))
    return Heartbeat(stop=run.stop_requested_at is not None, lease_s=left_s)


async def clip_leases(platform: Platform) -> None:
    """For a server that starts: a lease of an earlier life lasts no longer than one from now."""
    latest = steady_now() + timedelta(seconds=LEASE_S)
    async with platform.db.write() as session:
        too_long = update(Run).where(Run.status == "running", Run.lease_expires_at > latest)
        await session.execute(too_long.values(lease_expires_at=latest))


async def _extend(
    platform: Platform, run_id: str, lease_token: str | None, request: HeartbeatRequest
) -> float:
    async with platform.db.write() as session:
        run = await leased_run(session, run_id, lease_token, lock=True)
        run.lease_expires_at = steady_now() + timedelta(seconds=LEASE_S)
        run.stage = request.stage or run.stage
        run.in_flight = request.in_flight
        run.waiting_for = request.waiting_for
        if request.effective:
            run.effective = {**run.effective, **request.effective}
    return LEASE_S


def _left_s(run: Run) -> float:
    """What is left of the lease as it stands in the database."""
    if run.lease_expires_at is None:
        return 0.0
    return max(0.0, (run.lease_expires_at - steady_now()).total_seconds())


def _worth_writing(run: Run, request: HeartbeatRequest) -> bool:
    news = (
        request.stage not in (None, run.stage)
        or request.waiting_for != run.waiting_for
        or any(run.effective.get(key) != value for key, value in (request.effective or {}).items())
    )
    fresh_until = steady_now() + timedelta(seconds=LEASE_S - QUIET_HEARTBEAT_S)
    return news or run.lease_expires_at is None or run.lease_expires_at < fresh_until
