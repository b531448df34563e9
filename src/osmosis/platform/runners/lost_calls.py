"""Model calls that may have been charged although no sample shows them: counted once, and told."""

from __future__ import annotations

from sqlalchemy import update

from osmosis.platform.db.models import Run, ShardLoss
from osmosis.platform.evals.lifecycle import note, run_topic
from osmosis.platform.platform import Platform
from osmosis.wire.errors import NotFound
from osmosis.wire.runner import LostCalls


async def add_lost_calls(platform: Platform, run_id: str, report: LostCalls) -> None:
    """Add a shard's lost calls to its run, whatever the run's status. A repeat changes nothing."""
    async with platform.db.write() as session:
        if await session.get(Run, run_id) is None:
            raise NotFound("There is no such run any more.")
        if await session.get(ShardLoss, (run_id, report.shard_id)) is not None:
            return
        session.add(ShardLoss(run_id=run_id, shard_id=report.shard_id, calls=report.calls))
        more = {
            "lost_calls": Run.lost_calls + report.calls,
            "spent_tokens": Run.spent_tokens + report.spent.tokens,
            "spent_usd": Run.spent_usd + report.spent.usd,
        }
        await session.execute(update(Run).where(Run.id == run_id).values(**more))
        if report.calls:
            plural = "call" if report.calls == 1 else "calls"
            note(
                session,
                run_id,
                "calls",
                f"Up to {report.calls} model {plural} may have been charged that no sample shows: "
                "in flight when a process was lost, or part of a try that was.",
                level="warning",
                details={"shard_id": report.shard_id, "lost_calls": report.calls},
            )
    platform.metrics.lost_calls.inc(report.calls)
    platform.events.publish(run_topic(run_id))
