"""``/api/cli/eval-runs/{ref}/exports`` (ours; the documented API has downloads only)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.responses import FileResponse, Response

from osmosis.platform.addresses import public_url
from osmosis.platform.db.models import Job, Run
from osmosis.platform.deps import CurrentPlatform, CurrentScope
from osmosis.platform.evals.service import find_run
from osmosis.platform.evals.state import CurrentRuns
from osmosis.platform.exports.formats import FORMATS
from osmosis.platform.exports.service import (
    EXPORT,
    TIMEOUT_S,
    database_of,
    export_path,
    find_export,
    start_export,
)
from osmosis.platform.jobs.service import JobKind
from osmosis.platform.platform import Platform
from osmosis.platform.security.signing import presigned_url, require_presigned

router = APIRouter()

FILE_ROUTE = "/api/cli/eval-runs/-/export"


class NewExport(BaseModel):
    format: str


def setup(_app: FastAPI, platform: Platform) -> None:
    """Register the job that writes exports."""

    async def nothing_to_apply(_session: AsyncSession, _job: Job, _answer: Any) -> None:
        """The file is the result, and the job's own status says how it went."""

    platform.jobs.register(
        JobKind(
            name=EXPORT,
            module="osmosis.platform.exports.process",
            on_result=nothing_to_apply,
            on_failure=nothing_to_apply,
            timeout_s=TIMEOUT_S,
            context=lambda: database_of(platform.settings),
        )
    )


@router.post("/api/cli/eval-runs/{ref}/exports", status_code=202)
async def create(
    ref: str,
    body: NewExport,
    request: Request,
    *,
    platform: CurrentPlatform,
    scope: CurrentScope,
    runs: CurrentRuns,
) -> dict[str, Any]:
    async with platform.db.read() as session:
        run, creator = await find_run(session, scope.workspace.id, ref)
    url = public_url(request, f"/{scope.workspace.name}/runs/{run.name}")
    job = await start_export(platform, runs.numbers, run, creator, format=body.format, url=url)
    return _rendered(request, run, job)


@router.get("/api/cli/eval-runs/{ref}/exports/{export_id}")
async def show(
    ref: str, export_id: str, request: Request, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    async with platform.db.read() as session:
        run, _ = await find_run(session, scope.workspace.id, ref)
        job = await find_export(session, run, export_id)
    return _rendered(request, run, job)


@router.get(FILE_ROUTE)
async def file(
    platform: CurrentPlatform, claims: Annotated[dict[str, Any], Depends(require_presigned)]
) -> Response:
    path = export_path(platform.settings, claims["run"], claims["export"], claims["format"])
    media_type = FORMATS[claims["format"]].media_type
    # As an attachment: a report shows what programs wrote, and does not run on our own address.
    return FileResponse(path, media_type=media_type, filename=claims["name"])


def _rendered(request: Request, run: Run, job: Job) -> dict[str, Any]:
    format = job.payload["format"]
    name = f"{run.name}{FORMATS[format].ending}"
    body: dict[str, Any] = {
        "id": job.id,
        "run": run.name,
        "format": format,
        "status": job.status,
        "file_name": name,
    }
    if job.status == "failed":
        body["error"] = job.error
    if job.status == "done":
        claims = {"run": run.id, "export": job.id, "format": format, "name": name}
        body["url"] = presigned_url(request, "GET", FILE_ROUTE, claims)
    return body
