"""From uploaded files to a run.

Whether an import is finished is told by its run alone: the run of a local run has an id made of
workspace and local run, and says which session's files it holds.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from osmosis.dataset.selection import format_ranges
from osmosis.metrics.documents import dump_summary
from osmosis.metrics.summary import summarize
from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Run, RunLog, Sample
from osmosis.platform.deps import Scope
from osmosis.platform.evals.lifecycle import run_topic
from osmosis.platform.evals.places import artifacts_dir, segments_dir
from osmosis.platform.evals.tallies import Counted
from osmosis.platform.imports.declaration import ARTIFACTS, LOGS, Declaration
from osmosis.platform.imports.log_lines import read_log
from osmosis.platform.imports.reading import Progress, read_progress, read_samples
from osmosis.platform.imports.sessions import ImportSession
from osmosis.platform.platform import Platform
from osmosis.platform.runners.artifacts import safe_path
from osmosis.platform.runners.records import count_deltas, has_passed, sample_row
from osmosis.platform.segments import SegmentWriter, encode_entry
from osmosis.platform.settings import Settings
from osmosis.wire.errors import Conflict
from osmosis.wire.samples import SampleRecord

BATCH = 256
ORIGIN = "local"
MAX_DELETED = 1000
SCRIPTED_PREFIX = "scripted/"
PROVENANCE = ("sdk_version", "git_head", "git_branch", "git_dirty", "config_branch", "config_path")

_finalizing = asyncio.Lock()
"""Imports become runs one at a time: each reads and writes much."""


async def imported_run(
    session: AsyncSession, workspace_id: str, local_run_id: str
) -> tuple[str, Run | None]:
    """(id, run) of a local run in a workspace; without the run when it is not there (any more)."""
    for attempt in range(MAX_DELETED):
        text = f"import\0{workspace_id}\0{local_run_id}\0{attempt}"
        run_id = hashlib.sha256(text.encode()).hexdigest()[:32]
        run = await session.get(Run, run_id)
        if run is None or run.deleted_at is None:
            return run_id, run
    raise Conflict("This local run was imported and deleted too many times.")


def holds(run: Run | None, session: ImportSession) -> bool:
    """Whether the run is made of the session's files."""
    return run is not None and run.effective.get("import", {}).get("session_id") == session.id


def require_new(run: Run | None, declaration: Declaration) -> None:
    if run is not None and not declaration.reimport:
        raise Conflict(
            f"This local run was imported as '{run.name}' with other results.",
            hint="Replace them with `osmosis eval upload RUN_DIR --replace`.",
            platform_code="ALREADY_IMPORTED",
            details={"eval_run_name": run.name, "eval_run_id": run.id},
        )


async def finalize(platform: Platform, scope: Scope, session: ImportSession) -> Run:
    """Make the run; the same again changes nothing."""
    async with _finalizing:
        return await _finalize(platform, scope, session)


async def _finalize(platform: Platform, scope: Scope, session: ImportSession) -> Run:
    declaration = session.declaration
    async with platform.db.read() as database:
        run_id, run = await imported_run(database, session.workspace_id, declaration.local_run_id)
    if run is not None and holds(run, session):
        return run
    require_new(run, declaration)
    missing = set(session.numbers) - await asyncio.to_thread(session.uploaded)
    if missing:
        raise Conflict(
            f"{len(missing)} of {len(session.numbers)} files are not uploaded yet, "
            f"such as {sorted(missing)[0]}.",
            platform_code="IMPORT_INCOMPLETE",
        )
    made = await asyncio.to_thread(_prepare, platform.settings, scope, session, run_id)
    await platform.db.transact(lambda connection: _write(connection, made))
    await asyncio.to_thread(_clear, session)
    platform.events.publish(run_topic(run_id))
    async with platform.db.read() as database:
        return await database.get_one(Run, run_id)


def _clear(session: ImportSession) -> None:
    """The files are the run's now; the declaration stays, for a client that asks again."""
    for path in session.uploads.iterdir():
        path.unlink(missing_ok=True)


class _Made:
    """A run with everything that is to be inserted for it."""

    def __init__(self, run: Run, rows: list[dict[str, Any]], log: list[dict[str, Any]]) -> None:
        self.run, self.rows, self.log = run, rows, log


def _prepare(settings: Settings, scope: Scope, session: ImportSession, run_id: str) -> _Made:
    """Check every file and bring the bulky ones to their places. Runs in a thread."""
    progress = read_progress(session)
    run = _run(scope, session, run_id, progress)
    writer = SegmentWriter(segments_dir(settings, run_id))
    rows: list[dict[str, Any]] = []
    batch: list[SampleRecord] = []
    # All of it is checked before any of it is kept.
    for _ in read_samples(session, progress):
        pass
    try:
        for record in read_samples(session, progress):
            batch.append(record)
            _keep_artifacts(settings, session, run_id, record)
            if len(batch) == BATCH:
                rows += _store(writer, run, batch)
                batch = []
        rows += _store(writer, run, batch)
    finally:
        writer.close()
    outcomes = (Counted.of(row).outcome() for row in rows)
    run.summary = dump_summary(summarize(outcomes, pass_threshold=run.pass_threshold, n=run.n))
    log = read_log(session.place(LOGS)) if LOGS in session.numbers else []
    who = scope.principal.name or scope.principal.email
    text = f"{who} imported this run: it was evaluated on another machine, not by this platform."
    log.append({"timestamp": utc_now(), "level": "info", "step": "import", "message": text})
    return _Made(run, rows, [{"run_id": run_id, "details": None, **line} for line in log])


def _store(
    writer: SegmentWriter, run: Run, records: Sequence[SampleRecord]
) -> list[dict[str, Any]]:
    now = utc_now()
    rows: list[dict[str, Any]] = []
    entries: list[bytes] = []
    bulky: list[dict[str, Any]] = []
    for record in records:
        row: dict[str, Any] = {**sample_row(run.id, record), "created_at": now}
        row["passed"] = has_passed(record.status, record.reward, run.pass_threshold)
        if record.trajectory is not None:
            entry = encode_entry(record.trajectory)
            entries.append(entry.data)
            bulky.append(row)
            row["record"]["trajectory_bytes"] = entry.document_bytes
        if not run.model_path.startswith(SCRIPTED_PREFIX):
            row["record"]["cost_unknown"] = True  # the files do not say what the calls cost
        rows.append(row)
    for row, place in zip(bulky, writer.append(entries), strict=True):
        row["segment"], row["offset"], row["length"] = place
    for name, delta in count_deltas(records, run.pass_threshold).items():
        setattr(run, name, getattr(run, name) + delta)
    if not run.model_path.startswith(SCRIPTED_PREFIX):
        run.cost_unknown_count = run.sample_count
    return rows


def _keep_artifacts(
    settings: Settings, session: ImportSession, run_id: str, record: SampleRecord
) -> None:
    root = artifacts_dir(settings, run_id)
    for path in record.artifacts:
        source = session.place(f"rollout_trials/{record.rollout_id}/{ARTIFACTS}{path}")
        target = safe_path(root, record.rollout_id, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        os.link(source, target)


def _run(scope: Scope, session: ImportSession, run_id: str, progress: Progress) -> Run:
    declaration = session.declaration
    given, provenance = declaration.run, declaration.provenance
    experiment = given.experiment_config
    rows = declaration.source_rows
    known = {key: provenance[key] for key in PROVENANCE if provenance.get(key) is not None}
    run = Run(
        id=run_id,
        workspace_id=session.workspace_id,
        name=given.name,
        status="finished",
        stage="summarizing",
        rollout=experiment.rollout.name,
        entrypoint=experiment.entrypoint,
        model_path=experiment.model_path,
        branch=experiment.rollout.branch or _text(provenance.get("git_branch")),
        commit_sha=experiment.rollout.commit_sha or _text(provenance.get("git_head")) or "",
        dataset_name=experiment.dataset.name,
        dataset_sha256=experiment.dataset.sha256,
        config={
            "evaluation": given.evaluation_config.model_dump(),
            "advanced": {},
            "secrets": [],
        },
        env={},
        secret_scopes={},
        effective={
            "origin": ORIGIN,
            "import": {
                "session_id": session.id,
                "local_run_id": declaration.local_run_id,
                "local_name": given.name,
                "source_digest": experiment.rollout.source_digest,
                **{key: value for key, value in known.items() if isinstance(value, str | bool)},
            },
        },
        selection={
            "kind": "first" if rows == list(range(len(rows))) else "chosen",
            "seed": None,
            "rows": format_ranges(rows),
        },
        selected_rows=progress.sampled_rows,
        total_rows=progress.total_dataset_rows,
        n=given.evaluation_config.n,
        pass_threshold=given.evaluation_config.pass_threshold,
        creator_id=scope.principal.user_id,
        started_at=given.started_at,
        completed_at=given.completed_at,
    )
    for name in count_deltas([], run.pass_threshold):
        setattr(run, name, 0)
    return run


def _text(value: Any) -> str | None:
    return value[:1000] if isinstance(value, str) else None


def _write(connection: Connection, made: _Made) -> None:
    """One transaction: what was imported before goes, all of the new comes."""
    run = made.run
    with Session(connection, autoflush=False, join_transaction_mode="rollback_only") as session:
        before = session.get(Run, run.id)
        names = select(Run.name).where(Run.workspace_id == run.workspace_id, Run.id != run.id)
        taken = set(session.execute(names).scalars())
        run.name = before.name if before is not None else _free_name(run.name, taken)
        run.created_at = before.created_at if before is not None else utc_now()
        session.merge(run)
        session.flush()
    connection.execute(delete(Sample).where(Sample.run_id == run.id))
    connection.execute(delete(RunLog).where(RunLog.run_id == run.id))
    for start in range(0, len(made.rows), BATCH):
        connection.execute(insert(Sample), made.rows[start : start + BATCH])
    for start in range(0, len(made.log), BATCH):
        connection.execute(insert(RunLog), made.log[start : start + BATCH])


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        free = f"{name}-{number}"
        number += 1
    return free
