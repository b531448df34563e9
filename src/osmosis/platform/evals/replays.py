"""The runs that a config names as ``replay/RUN``, found and checked at submit."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.evals.lifecycle import ACTIVE
from osmosis.platform.evals.references import REPLAY
from osmosis.platform.evals.service import find_run
from osmosis.wire.errors import Issue, NotFound
from osmosis.wire.runner import ReplayedRun


async def check_replays(
    session: AsyncSession, workspace_id: str, models: Mapping[str, str]
) -> tuple[list[ReplayedRun], list[Issue]]:
    """Of the models by config key, the runs that they name, and what is wrong with the names."""
    found: dict[str, ReplayedRun] = {}
    issues: list[Issue] = []
    for key, path in models.items():
        if not path.startswith(REPLAY):
            continue
        ref = path.removeprefix(REPLAY)
        try:
            found[ref] = await _replayed(session, workspace_id, key, ref)
        except _Unusable as unusable:
            issues.append(Issue(key=key, message=str(unusable)))
    return list(found.values()), issues


class _Unusable(Exception):
    pass


async def _replayed(session: AsyncSession, workspace_id: str, key: str, ref: str) -> ReplayedRun:
    try:
        run, _ = await find_run(session, workspace_id, ref)
    except NotFound as error:
        raise _Unusable(f"{error.message} {error.hint}") from None
    if run.status in ACTIVE:
        raise _Unusable(f"the run '{run.name}' is still {run.status}; replay it when it has ended")
    if not run.kept_count:
        raise _Unusable(
            f"the run '{run.name}' has no kept calls: it made none, was imported, or was recorded "
            "before calls were kept; run its config again and replay that run"
        )
    model = run.model_path
    if key == "advanced.judge_model":
        model = run.config.get("advanced", {}).get("judge_model") or model
    return ReplayedRun(name=ref, run_id=run.id, run_name=run.name, model_path=model)
