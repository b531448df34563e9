"""Finding, listing, stopping and deleting runs."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from osmosis.platform.db.base import steady_now, utc_now
from osmosis.platform.db.models import Run, User
from osmosis.platform.evals.ended import tell_end
from osmosis.platform.evals.lifecycle import ACTIVE, CLAIMABLE, DELETED, end_run, note, run_topic
from osmosis.platform.paging import Page
from osmosis.platform.platform import Platform
from osmosis.wire.errors import Conflict, NotFound, did_you_mean

NAMES_FOR_SUGGESTIONS = 500


async def list_runs(
    session: AsyncSession, workspace_id: str, page: Page
) -> tuple[Sequence[tuple[Run, User | None]], int]:
    """A page of the workspace's runs, newest first, each with its creator; and their number."""
    mine = (Run.workspace_id == workspace_id, Run.deleted_at.is_(None))
    query = (
        select(Run, User)
        .outerjoin(User, User.id == Run.creator_id)
        .where(*mine)
        .order_by(Run.created_at.desc(), Run.id.desc())
        .limit(page.limit)
        .offset(page.offset)
        # The list of selected rows can be long, and nothing in a list shows it.
        .options(defer(Run.selection, raiseload=True))
    )
    found = [(run, user) for run, user in await session.execute(query)]
    total = (await session.execute(select(func.count()).select_from(Run).where(*mine))).scalar_one()
    return found, total


async def find_run(
    session: AsyncSession, workspace_id: str, ref: str, *, lock: bool = False
) -> tuple[Run, User | None]:
    """The run with this name or id; suggests a near name when there is none.

    ``lock`` holds its row until the transaction ends: for whoever is about to change its status.
    """
    query = (
        select(Run, User)
        .outerjoin(User, User.id == Run.creator_id)
        .where(Run.workspace_id == workspace_id, Run.deleted_at.is_(None))
        .where(or_(Run.name == ref, Run.id == ref))
    )
    if lock:
        query = query.with_for_update(of=Run)
    found = (await session.execute(query)).first()
    if found is None:
        names = await _recent_names(session, workspace_id)
        raise NotFound(
            f"There is no evaluation run '{ref}' in this workspace.{did_you_mean(ref, names)}",
            hint="`osmosis eval list` shows the runs.",
        )
    run, user = found
    return run, user


async def stop_run(platform: Platform, workspace_id: str, ref: str, by: str) -> Run:
    """Ask an active run to stop: a pending one is stopped at once, a running one shortly."""
    async with platform.db.write() as session:
        run, _ = await find_run(session, workspace_id, ref, lock=True)
        if run.status not in ACTIVE:
            raise Conflict(
                f"The run '{run.name}' is already {run.status}; only a pending or running one "
                "can be stopped.",
                platform_code="RUN_NOT_ACTIVE",
                details={"status": run.status},
            )
        if run.stop_requested_at is None:
            run.stop_requested_at = steady_now()
            note(session, run.id, "stop", f"{by} asked the run to stop.")
        at_once = run.status == "pending"
        if at_once:
            end_run(run, "stopped", stop_reason="user")
            note(session, run.id, "stop", "The run was stopped before it began.")
    if at_once:
        tell_end(platform, run)
    platform.events.publish(CLAIMABLE)
    platform.events.publish(run_topic(run.id))
    return run


async def delete_run(platform: Platform, workspace_id: str, ref: str) -> Run:
    """Take a run that has ended off every list. Its rows and files go soon after."""
    async with platform.db.write() as session:
        run, _ = await find_run(session, workspace_id, ref, lock=True)
        if run.status in ACTIVE:
            raise Conflict(
                f"The run '{run.name}' is {run.status}, and only a run that has ended can be "
                "deleted.",
                hint=f"Stop it first: osmosis eval stop {run.name}",
                platform_code="RUN_ACTIVE",
                details={"status": run.status},
            )
        await session.execute(update(Run).where(Run.id == run.id).values(deleted_at=utc_now()))
    platform.events.publish(DELETED)
    return run


async def _recent_names(session: AsyncSession, workspace_id: str) -> Sequence[str]:
    query = (
        select(Run.name)
        .where(Run.workspace_id == workspace_id, Run.deleted_at.is_(None))
        .order_by(Run.created_at.desc())
        .limit(NAMES_FOR_SUGGESTIONS)
    )
    return (await session.execute(query)).scalars().all()
