"""What the database is asked at a scrape: runs, samples and jobs by status."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Job, Run
from osmosis.platform.observability.metrics import Metrics
from osmosis.platform.platform import Platform

RUN_STATUSES = ("pending", "running", "finished", "failed", "stopped")
JOB_STATUSES = ("pending", "running", "done", "failed")
SAMPLE_COLUMNS = {
    "success": Run.success_count,
    "failed": Run.failed_count,
    "skipped": Run.skipped_count,
}


async def take_census(platform: Platform) -> None:
    """Bring the gauges up to date. One read of the runs' rows; samples are never counted one by
    one, for their sums are kept on the runs."""
    metrics = platform.metrics
    await platform.db.look(lambda session: _count(session, metrics))
    usage = await asyncio.to_thread(shutil.disk_usage, platform.settings.data_dir)
    metrics.free_disk.set(usage.free)


def _count(session: Session, metrics: Metrics) -> None:
    runs = session.execute(
        select(
            Run.status,
            func.count(),
            func.sum(Run.in_flight),
            func.min(Run.created_at),
            *(func.sum(column) for column in SAMPLE_COLUMNS.values()),
        )
        .where(Run.deleted_at.is_(None))
        .group_by(Run.status)
    ).all()
    by_status: dict[str, Any] = {row[0]: row for row in runs}
    for status in RUN_STATUSES:
        metrics.runs.labels(status).set(by_status[status][1] if status in by_status else 0)
    for index, status in enumerate(SAMPLE_COLUMNS, start=4):
        metrics.samples.labels(status).set(sum(row[index] or 0 for row in by_status.values()))
    pending, running = by_status.get("pending"), by_status.get("running")
    metrics.queue_depth.set(pending[1] if pending else 0)
    waited = (utc_now() - pending[3]).total_seconds() if pending else 0.0
    metrics.queue_age.set(max(0.0, waited))
    metrics.in_flight.set((running[2] or 0) if running else 0)
    counted = session.execute(select(Job.status, func.count()).group_by(Job.status))
    jobs: dict[str, int] = {status: count for status, count in counted}  # noqa: C416  rows are typed
    for status in JOB_STATUSES:
        metrics.jobs.labels(status).set(jobs.get(status, 0))
