"""What must hold before a run that has ended is opened again, to be retried or re-graded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.datasets.service import dataset_path
from osmosis.platform.db.models import Dataset, Run
from osmosis.platform.evals.lifecycle import ACTIVE
from osmosis.platform.evals.provided import PROVIDED_SCOPE
from osmosis.platform.platform import Platform
from osmosis.platform.secrets.service import resolve_secrets
from osmosis.wire.errors import Conflict, Issue, NotFound, ValidationFailed


def require_ended(run: Run) -> None:
    if run.status in ACTIVE:
        raise Conflict(
            f"The run '{run.name}' is {run.status}; only a run that has ended can be retried.",
            hint=f"Wait for its end, or stop it: osmosis eval stop {run.name}",
            platform_code="RUN_ACTIVE",
            details={"status": run.status},
        )


def refuse_imported(run: Run) -> None:
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


async def require_dataset(platform: Platform, session: AsyncSession, run: Run) -> None:
    dataset = await session.get(Dataset, run.dataset_id or "")
    if dataset is None or not dataset_path(platform.settings, dataset).is_file():
        raise Conflict(
            f"The dataset '{run.dataset_name}' of the run was deleted.",
            hint="Upload it again and submit a new run.",
            platform_code="DATASET_GONE",
        )


async def secret_scopes(
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
