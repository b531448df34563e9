"""Jobs: rows with a lease, each executed by a module in a child process of its own.

A kind names the module (``python -m <module>``; JSON on stdin, JSON on stdout) and what to do
with its answer. The answer is applied in the very transaction that closes the job, and only while
the lease is still ours, so a job counts once although it may run more than once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, event, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.base import steady_now
from osmosis.platform.db.models import Job
from osmosis.platform.db.session import Database
from osmosis.platform.events import Events
from osmosis.platform.jobs.process import JobProcessError, run_process
from osmosis.platform.settings import Settings

TOPIC = "jobs"
IDLE_LOOK_S = 5.0
"""How often the loop looks for leases that expired; new jobs wake it at once."""

LOOKED_AT = 20
LOST = "The job was lost again and again while it ran."

log = logging.getLogger("osmosis.platform.jobs")

Apply = Callable[[AsyncSession, Job, dict[str, Any]], Awaitable[None]]
Fail = Callable[[AsyncSession, Job, str], Awaitable[None]]


@dataclass(frozen=True)
class JobKind:
    """A kind of job.

    ``on_result(session, job, answer)`` and ``on_failure(session, job, reason)`` run inside the
    transaction that closes the job; ``topics(job)`` are published after it.
    """

    name: str
    module: str
    on_result: Apply
    on_failure: Fail
    timeout_s: float | None = None
    context: Callable[[], dict[str, Any]] = dict[str, Any]
    """What the process is told beside the job's payload, and what the job's row never holds."""
    topics: Callable[[Job], tuple[str, ...]] = lambda _job: ()


class Jobs:
    """The register of kinds, and the loop that leases and runs jobs."""

    def __init__(self, settings: Settings, db: Database, events: Events) -> None:
        self._settings = settings
        self._db = db
        self._events = events
        self._kinds: dict[str, JobKind] = {}
        self._owner = secrets.token_hex(8)

    def register(self, kind: JobKind) -> None:
        if kind.name in self._kinds:
            raise ValueError(f"The job kind '{kind.name}' is registered twice.")
        self._kinds[kind.name] = kind

    async def enqueue(
        self, session: AsyncSession, kind: str, subject_id: str, payload: dict[str, Any]
    ) -> Job:
        """Add a job to the caller's transaction; it may start once that commits."""
        if kind not in self._kinds:
            raise ValueError(f"There is no job kind '{kind}'.")
        job = Job(kind=kind, subject_id=subject_id, payload=payload)
        session.add(job)
        await session.flush()

        def committed(_session: object) -> None:
            self._events.publish(TOPIC)

        event.listen(session.sync_session, "after_commit", committed, once=True)
        return job

    async def run(self) -> None:
        """Lease and run jobs until cancelled; cancelling ends their processes."""
        running: set[asyncio.Task[None]] = set()
        look_s = min(IDLE_LOOK_S, self._settings.job_lease_s)
        await self._void_leases_of_an_earlier_life()
        try:
            while True:
                mark = self._events.mark()
                while len(running) < self._settings.jobs_at_once:
                    job = await self._lease()
                    if job is None:
                        break
                    task = asyncio.create_task(self._run_one(job))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    task.add_done_callback(lambda _task: self._events.publish(TOPIC))
                await self._events.wait(TOPIC, look_s, since=mark)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _void_leases_of_an_earlier_life(self) -> None:
        """On SQLite one server owns the data directory, so no lease is anybody else's."""
        if self._db.engine.dialect.name != "sqlite":
            return
        async with self._db.write() as session:
            await session.execute(
                update(Job)
                .where(Job.status == "running", Job.lease_owner != self._owner)
                .values(lease_expires_at=steady_now())
            )

    async def _lease(self) -> Job | None:
        """Take the oldest job that is free; None when there is none."""
        if await self._db.first(self._free().limit(1)) is None:
            return None
        async with self._db.write() as session:
            free = self._free().limit(LOOKED_AT).with_for_update(skip_locked=True)
            jobs = (await session.execute(free)).scalars().all()
            lost = [job for job in jobs if job.tries >= self._settings.job_max_tries]
            for job in lost:
                await self._close(session, job, None, job.error or LOST)
            job = next((job for job in jobs if job not in lost), None)
            if job is not None:
                job.status = "running"
                job.tries += 1
                job.lease_token = secrets.token_hex(16)
                job.lease_owner = self._owner
                job.lease_expires_at = self._expiry()
        for closed in lost:
            self._publish(closed)
        return job

    def _free(self) -> Select[Job]:
        return (
            select(Job)
            .where(Job.status.in_(("pending", "running")), Job.kind.in_(self._kinds))
            .where(or_(Job.lease_expires_at.is_(None), Job.lease_expires_at < steady_now()))
            .order_by(Job.created_at)
        )

    def _expiry(self) -> datetime:
        return steady_now() + timedelta(seconds=self._settings.job_lease_s)

    def _publish(self, job: Job) -> None:
        for topic in self._kinds[job.kind].topics(job):
            self._events.publish(topic)

    async def _run_one(self, job: Job) -> None:
        kind = self._kinds[job.kind]
        work = asyncio.create_task(
            run_process(
                kind.module,
                {**job.payload, **kind.context()},
                timeout_s=kind.timeout_s or self._settings.job_timeout_s,
                output_bytes=self._settings.job_output_bytes,
            )
        )
        keeper = asyncio.create_task(self._keep_lease(job, work))
        answer: dict[str, Any] | None = None
        reason = ""
        try:
            answer = await work
        except JobProcessError as error:
            reason = str(error)
            log.warning("Job %s (%s) failed: %s", job.id, job.kind, reason)
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            if not _stopping():
                return
            raise
        finally:
            keeper.cancel()
        try:
            await self._settle(job, answer, reason)
        except Exception:
            # The lease runs out and the job is tried again, a bounded number of times.
            log.exception("The result of job %s (%s) could not be applied.", job.id, job.kind)

    async def _keep_lease(self, job: Job, work: asyncio.Task[dict[str, Any]]) -> None:
        while True:
            await asyncio.sleep(self._settings.job_lease_s / 3)
            async with self._db.write() as session:
                kept = await session.execute(
                    update(Job)
                    .where(Job.id == job.id, Job.lease_token == job.lease_token)
                    .values(lease_expires_at=self._expiry())
                    .returning(Job.id)
                )
                lost = kept.scalar_one_or_none() is None
            if lost:
                work.cancel()
                return

    async def _settle(self, leased: Job, answer: dict[str, Any] | None, reason: str) -> None:
        async with self._db.write() as session:
            query = select(Job).where(Job.id == leased.id, Job.lease_token == leased.lease_token)
            job = (await session.execute(query)).scalar_one_or_none()
            if job is None:
                return
            if answer is None and job.tries < self._settings.job_max_tries:
                job.status, job.error = "pending", reason
                job.lease_token = job.lease_owner = job.lease_expires_at = None
            else:
                await self._close(session, job, answer, reason)
        self._publish(leased)

    async def _close(
        self, session: AsyncSession, job: Job, answer: dict[str, Any] | None, reason: str
    ) -> None:
        kind = self._kinds[job.kind]
        if answer is None:
            await kind.on_failure(session, job, reason)
            job.status, job.error = "failed", reason
        else:
            await kind.on_result(session, job, answer)
            job.status, job.error = "done", None
        job.lease_token = job.lease_owner = job.lease_expires_at = None


def _stopping() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
