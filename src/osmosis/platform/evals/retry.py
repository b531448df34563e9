"""Reopening a run that has ended: a new generation that keeps what was graded.

The samples that failed or were skipped are forgotten, so that they and those that were never
recorded are run again; the counters of the run are counted anew from what stays. No lease of an
earlier generation holds any more, so a late result of it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, delete, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.datasets.service import dataset_path
from osmosis.platform.db.models import Dataset, Run, Sample
from osmosis.platform.deps import Scope
from osmosis.platform.evals.lifecycle import ACTIVE, CLAIMABLE, note, reopen_run, run_topic
from osmosis.platform.evals.provided import PROVIDED_SCOPE, seal_provided
from osmosis.platform.evals.retry_limits import config_with, given_limits, listed, require_budget
from osmosis.platform.evals.service import find_run
from osmosis.platform.evals.tallies import drop_tally
from osmosis.platform.platform import Platform
from osmosis.platform.secrets.service import resolve_secrets
from osmosis.wire.errors import Conflict, Issue, NotFound, ValidationFailed

_AGAIN = or_(Sample.status != "success", Sample.reward.is_(None))
"""The condition of a recorded sample that is run again: everything that has no grade to keep."""


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
        _require_ended(run)
        _refuse_imported(run)
        graded = await _graded(session, run)
        if graded == run.selected_rows * run.n:
            raise Conflict(
                f"All {graded} samples of the run '{run.name}' are graded; there is nothing to "
                "run again.",
                hint="Submit the config again for a new run.",
                platform_code="NOTHING_TO_RETRY",
            )
        await _require_dataset(platform, session, run)
        scopes = await _secret_scopes(session, run, given)
        config = config_with(run, changes)
        require_budget(run, config)
    sealed = seal_provided(platform.vault, run.id, given)
    who = scope.principal.name or scope.principal.email
    async with platform.db.write() as session:
        run, _ = await find_run(session, scope.workspace.id, ref, lock=True)
        _require_ended(run)
        redone = await _forget(session, run)
        reopened = Reopened(run, redone)
        run.secret_scopes = scopes
        run.config = config
        run.provided_cipher = sealed
        reopen_run(run)
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


def counted_again(connection: Connection, run_id: str, pass_threshold: float) -> dict[str, Any]:
    """The counters of a run, from the samples that are recorded for it."""
    graded = (Sample.status != "skipped") & Sample.reward.is_not(None)

    def number(condition: Any) -> Any:
        return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)

    def total(value: Any) -> Any:
        return func.coalesce(func.sum(value), 0)

    record = Sample.record
    counted = connection.execute(
        select(
            func.count().label("sample_count"),
            number(Sample.status == "success").label("success_count"),
            number(Sample.status == "failed").label("failed_count"),
            number(Sample.status == "skipped").label("skipped_count"),
            number(graded).label("graded_count"),
            number(graded & (Sample.reward >= pass_threshold)).label("passed_count"),
            total(case((graded, Sample.reward), else_=0.0)).label("reward_sum"),
            total(Sample.tokens).label("tokens_sum"),
            total(record["judge_tokens"].as_integer()).label("judge_tokens_sum"),
            (total(Sample.cost_usd) + total(record["judge_cost_usd"].as_float())).label("cost_sum"),
            number(record["cost_unknown"].as_boolean()).label("cost_unknown_count"),
            total(record["saved_calls"].as_integer()).label("saved_calls_count"),
            total(record["saved_usd"].as_float()).label("saved_sum"),
            number(record["saved_unknown"].as_boolean()).label("saved_unknown_count"),
            number(record["kept_calls"].as_boolean()).label("kept_count"),
        ).where(Sample.run_id == run_id)
    )
    return dict(counted.mappings().one())


async def _forget(session: AsyncSession, run: Run) -> int:
    """Take out what is run again and count the rest; how many samples were forgotten."""
    gone = await session.execute(delete(Sample).where(Sample.run_id == run.id, _AGAIN))
    connection = await session.connection()
    await connection.run_sync(drop_tally, run.id)
    counters = await connection.run_sync(counted_again, run.id, run.pass_threshold)
    for name, value in counters.items():
        setattr(run, name, value)
    return int(gone.rowcount)  # pyright: ignore[reportAttributeAccessIssue]


async def _graded(session: AsyncSession, run: Run) -> int:
    kept = select(func.count()).where(Sample.run_id == run.id, ~_AGAIN)
    return (await session.execute(kept)).scalar_one()


def _require_ended(run: Run) -> None:
    if run.status in ACTIVE:
        raise Conflict(
            f"The run '{run.name}' is {run.status}; only a run that has ended can be retried.",
            hint=f"Wait for its end, or stop it: osmosis eval stop {run.name}",
            platform_code="RUN_ACTIVE",
            details={"status": run.status},
        )


def _refuse_imported(run: Run) -> None:
    """A run of another machine has no code and no rows here; clients tell how to retry it."""
    imported: dict[str, Any] | None = run.effective.get("import")
    if imported is None:
        return
    local = {"eval_run_name": imported.get("local_name", run.name)}
    if config_path := imported.get("config_path"):
        local["config_path"] = config_path
    raise ValidationFailed(
        f"The run '{run.name}' was evaluated on another machine and imported; it is retried there.",
        platform_code="LOCAL_RUN",
        details={"local_run": local},
    )


async def _require_dataset(platform: Platform, session: AsyncSession, run: Run) -> None:
    dataset = await session.get(Dataset, run.dataset_id or "")
    if dataset is None or not dataset_path(platform.settings, dataset).is_file():
        raise Conflict(
            f"The dataset '{run.dataset_name}' of the run was deleted.",
            hint="Upload it again and submit a new run.",
            platform_code="DATASET_GONE",
        )


async def _secret_scopes(
    session: AsyncSession, run: Run, given: Mapping[str, str]
) -> dict[str, str]:
    """Where each secret comes from now; raises when values that nobody keeps are not given."""
    required: list[str] = run.config.get("secrets", [])
    if unknown := [name for name in given if name not in required]:
        issues = [Issue(f"secrets.{name}", "is not among the run's secrets") for name in unknown]
        listed = ", ".join(unknown)
        raise ValidationFailed(f"The run needs no secret {listed}.", issues=issues)
    stored = await resolve_secrets(session, run.workspace_id, run.creator_id or "", required)
    erased = [name for name, scope in run.secret_scopes.items() if scope == PROVIDED_SCOPE]
    missing = [n for n in required if n not in given and (n in erased or n not in stored)]
    if missing:
        raise values_needed(missing)
    return {name: PROVIDED_SCOPE if name in given else stored[name].scope for name in required}


def values_needed(names: Iterable[str]) -> NotFound:
    """The error for secrets whose values were erased with the run that they were given for."""
    listed = list(names)
    return NotFound(
        f"The run needs values again that are not stored: {', '.join(listed)}.",
        hint="Give them once more; values that were provided for a run are erased at its end.",
        platform_code="RUN_SECRETS_REQUIRED",
        details={"run_secret_names": listed},
    )


def given_secrets(body: Mapping[str, Any]) -> dict[str, str]:
    """The values of ``secrets`` in a body; refuses what is not text."""
    given = body.get("secrets") or {}
    if not isinstance(given, Mapping):
        raise ValidationFailed("'secrets' must be a table of name and value.", field="secrets")
    values: dict[str, str] = {}
    for name, value in given.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(value, str) or not value or "\x00" in value:
            raise ValidationFailed(f"The value of '{name}' must be text.", field="secrets")
        values[str(name)] = value  # pyright: ignore[reportUnknownArgumentType]
    return values
