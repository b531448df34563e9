"""Asking for an export and fetching it: a job writes the file, which goes away some time later."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.metrics.documents import dump_summary
from osmosis.platform.db.models import Job, Run, User
from osmosis.platform.evals.documents import detail
from osmosis.platform.evals.downloads import prepare_exports
from osmosis.platform.evals.numbers import Numbers
from osmosis.platform.evals.places import exports_dir, segments_dir
from osmosis.platform.exports.formats import FORMATS
from osmosis.platform.platform import Platform
from osmosis.platform.settings import Settings
from osmosis.wire.errors import Conflict, NotFound, ValidationFailed, did_you_mean

EXPORT = "eval_export"
TIMEOUT_S = 4 * 3600.0
"""Some million samples on a busy disk."""


def checked_format(name: str) -> str:
    if name in FORMATS:
        return name
    raise ValidationFailed(
        f"There is no export format '{name[:40]}'.{did_you_mean(name, FORMATS)}",
        hint=f"The formats are {', '.join(FORMATS)}.",
        field="format",
    )


async def start_export(
    platform: Platform, numbers: Numbers, run: Run, creator: User | None, *, format: str, url: str
) -> Job:
    """Begin to write what is recorded of a run now. ``url`` is the address of its page."""
    if run.status == "pending":
        raise Conflict(
            f"The run '{run.name}' has not begun; there is nothing to export yet.",
            platform_code="RUN_PENDING",
        )
    summary = await numbers.summary(run)
    document = detail(run, creator, url, summary)
    # Values of the environment are shown to the workspace; a file may travel further.
    document["env_config"] = sorted(run.env)
    payload = {
        "format": checked_format(format),
        "run": document,
        "summary": dump_summary(summary),
        "segments": str(segments_dir(platform.settings, run.id)),
    }
    await asyncio.to_thread(prepare_exports, exports_dir(platform.settings, run.id))
    async with platform.db.write() as session:
        job = await platform.jobs.enqueue(session, EXPORT, run.id, payload)
        name = f"{job.id}{FORMATS[format].ending}"
        job.payload = {**payload, "path": str(exports_dir(platform.settings, run.id) / name)}
    return job


async def find_export(session: AsyncSession, run: Run, export_id: str) -> Job:
    query = select(Job).where(Job.id == export_id, Job.kind == EXPORT, Job.subject_id == run.id)
    job = (await session.execute(query)).scalar_one_or_none()
    if job is None:
        raise NotFound(f"The run '{run.name}' has no export '{export_id[:40]}'.")
    return job


def export_path(settings: Settings, run_id: str, export_id: str, format: str) -> Path:
    """The finished file; raises :class:`NotFound` when its time is over."""
    path = exports_dir(settings, run_id) / f"{export_id}{FORMATS[format].ending}"
    if not path.is_file():
        raise NotFound("This export is gone.", hint="Ask for a new one: osmosis eval export")
    return path


def database_of(settings: Settings) -> dict[str, Any]:
    """What the job's process is told beside its payload, and no table keeps."""
    return {"database": settings.sqlalchemy_url}
