"""Reopening a run that has ended: a new generation that keeps what was graded.

The samples that failed or were skipped are forgotten, so that they and those that were never
recorded are run again; what they had counted for is taken off the counters. No lease of an
earlier generation holds any more, so a late result of it changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.models import Run, Sample
from osmosis.platform.deps import Scope
from osmosis.platform.evals.counters import counted_again
from osmosis.platform.evals.lifecycle import CLAIMABLE, note, reopen_run, run_topic
from osmosis.platform.evals.provided import seal_provided
from osmosis.platform.evals.reopening import (
    given_secrets,
    refuse_imported,
    require_dataset,
    require_ended,
    secret_scopes,
)
from osmosis.platform.evals.retry_limits import config_with, given_limits, listed, require_budget
from osmosis.platform.evals.service import find_run
from osmosis.platform.evals.tallies import keep_only_graded
from osmosis.platform.platform import Platform
from osmosis.wire.errors import Conflict

_BROKEN = ("failed", "skipped")
_AGAIN = (
    Sample.status.in_(_BROKEN),
    Sample.reward.is_(None) & Sample.status.not_in(_BROKEN),
)
"""Which recorded samples are run again: everything that has no grade to keep. Either condition is
looked up in an index; together they would be a look at every sample."""


@dataclass(frozen=True)
class Reopened:
    """A run that waits for a worker again. ``redone``: recorded samples that were forgotten."""

    run: Run
    redone: int

    @property
    def retryable(self) -> int:
        """How many samples run again; 0 says that the whole run does (platform-api.md §9)."""
        kept = self.run.resumed_count or 0
        return self.run.selected_rows * self.run.n - kept if kept or self.redone else 0


async def retry_run(
    platform: Platform, scope: Scope, ref: str, body: Mapping[str, Any]
) -> Reopened:
    """Reopen the run; raises when it has not ended, or cannot or need not run again."""
    given = given_secrets(body)
    changes = given_limits(body)
    async with platform.db.read() as session:
        run, _ = await find_run(session, scope.workspace.id, ref)
        require_ended(run)
        refuse_imported(run)
        graded = await _graded(session, run)
        if graded == run.selected_rows * run.n and run.status == "finished":
            raise Conflict(
                f"All {graded} samples of the run '{run.name}' are graded; there is nothing to "
                "run again.",
                hint="Submit the config again for a new run.",
                platform_code="NOTHING_TO_RETRY",
            )
        await require_dataset(platform, session, run)
        scopes = await secret_scopes(session, run, given)
        config = config_with(run, changes)
        require_budget(run, config)
    sealed = seal_provided(platform.vault, run.id, given)
    who = scope.principal.name or scope.principal.email
    async with platform.db.write() as session:
        run, _ = await find_run(session, scope.workspace.id, ref, lock=True)
        require_ended(run)
        redone = await _forget(session, run)
        reopened = Reopened(run, redone)
        run.secret_scopes = scopes
        run.config = config
        run.provided_cipher = sealed
        reopen_run(run)
        run.regrade = None
        run.resumed_count = run.sample_count
        note(
            session,
            run.id,
            "queued",
            f"{who} had the run retried (generation {run.generation}): {run.resumed_count} graded "
            f"samples are kept, {run.selected_rows * run.n - (run.resumed_count or 0)} run again."
            + (f" New limits: {listed(changes)}." if changes else ""),
        )
    platform.events.publish(CLAIMABLE)
    platform.events.publish(run_topic(run.id))
    return reopened


async def _forget(session: AsyncSession, run: Run) -> int:
    """Take out what is run again, and what it had counted for; how many samples were forgotten."""
    connection = await session.connection()
    forgotten = 0
    for again in _AGAIN:
        gone = await connection.run_sync(counted_again, run.id, run.pass_threshold, only=again)
        forgotten += gone["sample_count"]
        for name, value in gone.items():
            setattr(run, name, getattr(run, name) - value)
        await session.execute(delete(Sample).where(Sample.run_id == run.id, again))
    await connection.run_sync(keep_only_graded, run.id)
    return forgotten


async def _graded(session: AsyncSession, run: Run) -> int:
    graded = (Sample.status == "success") & Sample.reward.is_not(None)
    kept = select(func.count()).where(Sample.run_id == run.id, graded)
    return (await session.execute(kept)).scalar_one()
