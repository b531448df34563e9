"""Ends what nobody works on any more: stopped runs without a worker, deleted runs' remains."""

from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta

from sqlalchemy import delete, or_, select, update

from osmosis.platform.db.base import steady_now
from osmosis.platform.db.models import Run, RunLog, Sample
from osmosis.platform.evals.ended import tell_end
from osmosis.platform.evals.lifecycle import CLAIMABLE, DELETED, end_run, run_topic
from osmosis.platform.evals.places import run_dir
from osmosis.platform.platform import Platform
from osmosis.platform.runners.finish import note_end
from osmosis.platform.runners.leases import (
    LEASE_S,
    QUIET_HEARTBEAT_S,
    claimable,
    clip_leases,
)
from osmosis.platform.runners.worker_id import is_dead
from osmosis.platform.runners.writers import SegmentWriters

PERIOD_S = 1.0
SWEEP_PERIOD_S = 60.0
# A worker that is asked to stop and says nothing for this long is taken to be gone.
SILENT_STOP_S = 3.0
# And one that goes on beating without stopping loses its lease after this.
STOP_DEADLINE_S = 9.0
DELETED_AT_ONCE = 2000


async def reap(platform: Platform) -> None:
    """Look after leases every second, for as long as the server lives."""
    await clip_leases(platform)
    while True:
        await expire_dead_leases(platform)
        await end_stopped_runs(platform)
        waiting = select(Run.id).where(claimable(steady_now())).limit(1)
        if await platform.db.first(waiting) is not None:
            platform.events.publish(CLAIMABLE)
        await asyncio.sleep(PERIOD_S)


async def sweep(platform: Platform, writers: SegmentWriters) -> None:
    """Remove what is left of deleted runs, beside everything else: a big one takes a while."""
    while True:
        mark = platform.events.mark()
        while await remove_one_deleted_run(platform, writers):
            pass
        if not await platform.events.wait(DELETED, SWEEP_PERIOD_S, since=mark):
            # Nothing was deleted, or the server stops and this task is about to be cancelled.
            await asyncio.sleep(PERIOD_S)


async def expire_dead_leases(platform: Platform) -> list[str]:
    """End the leases of workers on this machine that have died; returns the ids of their runs."""
    held = (Run.status == "running", Run.lease_expires_at > steady_now())
    query = select(Run.id, Run.lease_owner, Run.lease_token).where(*held)
    leases = await platform.db.look(lambda session: session.execute(query).all())
    dead = [lease for lease in leases if is_dead(lease.lease_owner or "")]
    if not dead:
        return []
    async with platform.db.write() as session:
        for run_id, _, token in dead:
            mine = update(Run).where(Run.id == run_id, Run.lease_token == token)
            await session.execute(mine.values(lease_expires_at=steady_now()))
    return [row.id for row in dead]


async def end_stopped_runs(platform: Platform) -> list[str]:
    """Stop the runs whose worker was asked to and is gone, or does not; returns their ids."""
    now = steady_now()
    silence = timedelta(seconds=LEASE_S - QUIET_HEARTBEAT_S - SILENT_STOP_S)
    overdue = (
        Run.status == "running",
        Run.stop_requested_at.is_not(None),
        or_(
            Run.lease_expires_at.is_(None),
            Run.lease_expires_at < now,
            (Run.stop_requested_at < now - timedelta(seconds=SILENT_STOP_S))
            & (Run.lease_expires_at < now + silence),
            Run.stop_requested_at < now - timedelta(seconds=STOP_DEADLINE_S),
        ),
    )
    if await platform.db.first(select(Run.id).where(*overdue).limit(1)) is None:
        return []
    async with platform.db.write() as session:
        runs = (await session.execute(select(Run).where(*overdue).with_for_update())).scalars()
        ended: list[Run] = []
        for run in runs:
            end_run(run, "stopped", stop_reason="user")
            run.lease_token = None
            note_end(session, run)
            ended.append(run)
    platform.metrics.leases_lost.labels("disobeyed_stop").inc(len(ended))
    for run in ended:
        tell_end(platform, run)
        platform.events.publish(run_topic(run.id))
    return [run.id for run in ended]


async def remove_one_deleted_run(platform: Platform, writers: SegmentWriters) -> bool:
    """Remove the rows and files of one deleted run, in small transactions; False when none."""
    async with platform.db.read() as session:
        query = select(Run.id).where(Run.deleted_at.is_not(None)).limit(1)
        run_id = (await session.execute(query)).scalar_one_or_none()
    if run_id is None:
        return False
    for table in (Sample, RunLog):
        some = select(table.id).where(table.run_id == run_id).limit(DELETED_AT_ONCE)
        while True:
            async with platform.db.write() as session:
                done = await session.execute(delete(table).where(table.id.in_(some)))
            if not done.rowcount:  # pyright: ignore[reportAttributeAccessIssue]
                break
    writers.close(run_id)
    await asyncio.to_thread(shutil.rmtree, run_dir(platform.settings, run_id), ignore_errors=True)
    async with platform.db.write() as session:
        await session.execute(delete(Run).where(Run.id == run_id))
    return True
