"""The end of a run, as its worker reports it."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.metrics.documents import dump_summary
from osmosis.platform.db.models import Run
from osmosis.platform.evals.documents import TERMINAL
from osmosis.platform.evals.ended import tell_end
from osmosis.platform.evals.lifecycle import end_run, note, run_topic
from osmosis.platform.evals.numbers import Numbers, summary_now
from osmosis.platform.platform import Platform
from osmosis.platform.runners.leases import LeaseLost, holds, leased_run
from osmosis.platform.runners.writers import SegmentWriters
from osmosis.wire.runner import FinishRequest, RunError


async def finish_run(
    platform: Platform,
    run_id: str,
    lease_token: str | None,
    request: FinishRequest,
    *,
    writers: SegmentWriters,
    numbers: Numbers,
) -> None:
    """Bring the run to its terminal status. The same report again changes nothing."""
    async with platform.db.read() as session:
        run = await session.get(Run, run_id)
        if run is None or not holds(run, lease_token):
            raise LeaseLost(run_id)
        if run.status != "running":
            return  # Its answer was lost on the way; the lease is still the one that ended it.
    if run.sample_count:
        await numbers.ensure_counted(run)
    async with platform.db.write() as session:
        run = await leased_run(session, run_id, lease_token, lock=True)
        connection = await session.connection()
        status, error = _verdict(run, request)
        if request.effective:
            run.effective = {**run.effective, **request.effective}
        reason = request.stop_reason
        if status == "stopped":
            reason = reason or ("user" if run.stop_requested_at else "worker")
        if run.regrade and status == "finished":
            status, reason, error = _as_before(run)
        end_run(
            run,
            status,
            stop_reason=reason,
            stop_message=request.stop_message if status == "stopped" else None,
            error=error,
            summary=dump_summary(await connection.run_sync(summary_now, run)),
        )
        note_end(session, run)
    writers.close(run_id)
    numbers.forget(run_id)
    tell_end(platform, run)
    platform.events.publish(run_topic(run_id))


def _verdict(run: Run, request: FinishRequest) -> tuple[str, RunError | None]:
    """The status that the facts allow: a run finishes only with every sample recorded."""
    planned = run.selected_rows * run.n
    if request.status == "finished" and run.sample_count != planned and run.regrade is None:
        message = (
            f"The worker reported the end of the run, but only {run.sample_count} of {planned} "
            "samples are recorded."
        )
        return "failed", RunError(kind="internal", message=message, hint="Submit the run again.")
    return request.status, request.error


def _as_before(run: Run) -> tuple[str, str | None, RunError | None]:
    """How a run ends whose samples were graded again: complete, or as far as it was."""
    before: dict[str, Any] = (run.regrade or {}).get("before", {})
    if run.sample_count == run.selected_rows * run.n or before.get("status") not in TERMINAL:
        return "finished", None, None
    error = before.get("error")
    return before["status"], before.get("stop_reason"), RunError(**error) if error else None


def note_end(session: AsyncSession, run: Run) -> None:
    """Say in the run's log how it ended."""
    planned = run.selected_rows * run.n
    counts = (
        f"{run.sample_count} of {planned} samples recorded: {run.graded_count} graded, "
        f"{run.failed_count} failed, {run.skipped_count} skipped."
    )
    if run.status == "failed" and run.error:
        hint = f" {run.error['hint']}" if run.error.get("hint") else ""
        text = f"The run failed: {run.error['message']}{hint} {counts}"
        note(session, run.id, "end", text, level="error", details={"kind": run.error["kind"]})
    elif run.status == "stopped":
        why = f" {run.stop_message}" if run.stop_message else ""
        text = f"The run was stopped ({run.stop_reason}).{why} {counts}"
        note(session, run.id, "end", text, level="warning" if why else "info")
    else:
        note(session, run.id, "end", f"The run finished. {counts}")
