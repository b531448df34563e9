"""``/api/cli/eval-runs`` (platform-api.md §3.3, §3.4)."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter, FastAPI, Request

from osmosis.metrics.documents import metrics_document
from osmosis.platform.addresses import public_url
from osmosis.platform.db.models import Run, RunLog
from osmosis.platform.deps import CurrentPlatform, CurrentScope
from osmosis.platform.evals import download_routes, response_cache_routes, sample_routes, service
from osmosis.platform.evals.documents import detail, duration_ms, list_item, regrade_document
from osmosis.platform.evals.plan import plan_document
from osmosis.platform.evals.regrade import regrade_run
from osmosis.platform.evals.rerun import RerunRequest, rerun
from osmosis.platform.evals.retry import retry_run
from osmosis.platform.evals.state import CurrentRuns, install_run_state
from osmosis.platform.evals.submission import check_submission, create_run
from osmosis.platform.paging import LogQuery, PageQuery, fetch_log_page, iso
from osmosis.platform.platform import Platform
from osmosis.platform.storage_state import NO_ROOM
from osmosis.wire.errors import ValidationFailed

router = APIRouter()
runs = APIRouter(prefix="/api/cli/eval-runs")


def setup(app: FastAPI, platform: Platform) -> None:
    install_run_state(app, platform)


@runs.post("", status_code=201)
async def submit(
    request: Request, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    submission = await check_submission(platform, scope, await json_object(request))
    run = await create_run(platform, scope, submission)
    return {
        "id": run.id,
        "name": run.name,
        "status": run.status,
        "created_at": iso(run.created_at),
        "platform_url": run_url(request, scope.workspace.name, run),
        "warnings": submission.warnings,
    }


@runs.post("/plan")
async def plan(request: Request, platform: CurrentPlatform, scope: CurrentScope) -> dict[str, Any]:
    return plan_document(await check_submission(platform, scope, await json_object(request)))


@runs.get("")
async def list_runs(
    request: Request, platform: CurrentPlatform, scope: CurrentScope, page: PageQuery
) -> dict[str, Any]:
    async with platform.db.read() as session:
        found, total = await service.list_runs(session, scope.workspace.id, page)
    items = [
        list_item(run, user, run_url(request, scope.workspace.name, run)) for run, user in found
    ]
    return page.body("eval_runs", items, total)


@runs.get("/{ref}")
async def show(
    ref: str, request: Request, platform: CurrentPlatform, scope: CurrentScope, runs: CurrentRuns
) -> dict[str, Any]:
    async with platform.db.read() as session:
        run, user = await service.find_run(session, scope.workspace.id, ref)
    summary = await runs.numbers.summary(run)
    if run.status == "running" and platform.storage.full:
        run.waiting_for = NO_ROOM
    return detail(run, user, run_url(request, scope.workspace.name, run), summary)


@runs.get("/{ref}/metrics")
async def metrics(
    ref: str, platform: CurrentPlatform, scope: CurrentScope, runs: CurrentRuns
) -> dict[str, Any]:
    async with platform.db.read() as session:
        run, _ = await service.find_run(session, scope.workspace.id, ref)
    summary = await runs.numbers.summary(run)
    return metrics_document(summary, status=run.status, duration_ms=duration_ms(run))


@runs.get("/{ref}/logs")
async def logs(
    ref: str, platform: CurrentPlatform, scope: CurrentScope, page: LogQuery
) -> dict[str, Any]:
    async with platform.db.read() as session:
        run, _ = await service.find_run(session, scope.workspace.id, ref)
        return await fetch_log_page(session, RunLog, RunLog.run_id == run.id, page)


@runs.post("/{ref}/stop")
async def stop(ref: str, platform: CurrentPlatform, scope: CurrentScope) -> dict[str, Any]:
    principal = scope.principal
    run = await service.stop_run(
        platform, scope.workspace.id, ref, principal.name or principal.email
    )
    return {"id": run.id, "name": run.name, "status": run.status, "stop_requested": True}


@runs.post("/{ref}/retry")
async def retry(
    ref: str, request: Request, platform: CurrentPlatform, scope: CurrentScope, runs: CurrentRuns
) -> dict[str, Any]:
    body = await json_object(request)
    if body.get("regrade") is True:
        run = await regrade_run(platform, scope, ref, body)
        await runs.numbers.summary(run)  # While nothing is replaced yet, the tally still has it.
        samples: int = (run.regrade or {})["samples"]
    else:
        reopened = await retry_run(platform, scope, ref, body)
        run, samples = reopened.run, reopened.retryable
        runs.numbers.forget(run.id)
    runs.writers.close(run.id)
    return {
        "id": run.id,
        "name": run.name,
        "status": run.status,
        "workflow_id": f"{run.id}-{run.generation}",
        "retryable_samples": samples,
        **({"regrade": regrade_document(run)} if run.regrade else {}),
        "resumed_count": run.resumed_count,
        "generation": run.generation,
        "platform_url": run_url(request, scope.workspace.name, run),
    }


@runs.post("/{ref}/rerun", status_code=201)
async def run_again(
    ref: str, body: RerunRequest, request: Request, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    run, made, warnings = await rerun(platform, scope, ref, body)
    return {
        "id": made.id,
        "name": made.name,
        "status": made.status,
        "created_at": iso(made.created_at),
        "platform_url": run_url(request, scope.workspace.name, made),
        "warnings": warnings,
        "rerun_of": {"id": run.id, "name": run.name},
        "commit_sha": made.commit_sha,
        "branch": made.branch,
        "model_name": made.model_path,
        "dataset_name": made.dataset_name,
        "samples": made.selected_rows * made.n,
    }


@runs.delete("/{ref}")
async def delete(ref: str, platform: CurrentPlatform, scope: CurrentScope) -> dict[str, Any]:
    run = await service.delete_run(platform, scope.workspace.id, ref)
    return {"id": run.id, "name": run.name, "deleted": True}


def run_url(request: Request, workspace: str, run: Run) -> str:
    """The address of the run's page."""
    return public_url(request, f"/{workspace}/runs/{run.name}")


async def json_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object; refuses anything else in words.

    Strictly: a lone surrogate, a NaN or a thousand brackets would only break something later.
    """
    try:
        body = orjson.loads(await request.body())
    except ValueError:
        raise ValidationFailed("The body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise ValidationFailed("The body must be a JSON object.")
    return body


router.include_router(runs)
router.include_router(sample_routes.router)
router.include_router(download_routes.router)
router.include_router(response_cache_routes.router)
