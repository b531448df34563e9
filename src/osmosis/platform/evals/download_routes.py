"""Downloads of a run: the manifest, the signed addresses, the bytes (platform-api.md §3.6)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field
from starlette.responses import FileResponse, Response, StreamingResponse

from osmosis.platform.deps import CurrentPlatform, CurrentScope
from osmosis.platform.evals import downloads
from osmosis.platform.evals.places import artifacts_dir, entry_of
from osmosis.platform.evals.service import find_run
from osmosis.platform.evals.state import CurrentRuns
from osmosis.platform.platform import Platform
from osmosis.platform.runners.artifacts import safe_path
from osmosis.platform.security.signing import presigned_url, require_presigned
from osmosis.wire.errors import NotFound

router = APIRouter(prefix="/api/cli/eval-runs")

FILE_ROUTE = "/api/cli/eval-runs/-/file"
MAX_PATH = 2048


class WantedFile(BaseModel):
    path: str = Field(min_length=1, max_length=MAX_PATH)
    token: str | None = Field(default=None, max_length=200)


class WantedFiles(BaseModel):
    items: list[WantedFile] = Field(min_length=1, max_length=downloads.MAX_URLS)


@router.get("/{ref}/samples/manifest")
async def manifest(
    ref: str,
    *,
    platform: CurrentPlatform,
    scope: CurrentScope,
    runs: CurrentRuns,
    types: str | None = None,
    rows: str | None = None,
) -> dict[str, Any]:
    async with platform.db.read() as session:
        run, _ = await find_run(session, scope.workspace.id, ref)
    kinds = downloads.parse_types(types)
    return await downloads.manifest(platform, runs.numbers, run, kinds, rows)


@router.post("/{ref}/samples/download-urls")
async def download_urls(
    ref: str, wanted: WantedFiles, request: Request, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    async with platform.db.read() as session:
        run, _ = await find_run(session, scope.workspace.id, ref)
    items: list[dict[str, Any]] = []
    for file in wanted.items:
        downloads.check_path(file.path)
        claims = {"run": run.id, "path": file.path, "token": file.token}
        url = presigned_url(request, "GET", FILE_ROUTE, claims)
        token = {"token": file.token} if file.token is not None else {}
        items.append({"path": file.path, **token, "url": url})
    return {"items": items, "expires_in": platform.settings.presigned_url_s}


@router.get("/-/file")
async def file(
    platform: CurrentPlatform, claims: Annotated[dict[str, Any], Depends(require_presigned)]
) -> Response:
    run_id, path, token = claims["run"], claims["path"], claims["token"]
    if path in downloads.SNAPSHOTS:
        return FileResponse(downloads.export_file(platform, run_id, path, token or ""))
    if match := downloads.TRAJECTORY.fullmatch(path):
        return await _trajectory(platform, run_id, *match.groups())
    if match := downloads.ARTIFACT.fullmatch(path):
        return await _artifact(platform, run_id, *match.groups())
    raise NotFound(f"A run has no file '{path}'.")


async def _trajectory(platform: Platform, run_id: str, row: str, run_index: str) -> Response:
    async with platform.db.read() as session:
        sample = await downloads.sample_of(session, run_id, row, run_index)
    entry = entry_of(platform.settings, sample)
    if entry is None or entry.document is None:
        raise NotFound(f"The sample of row {row}, run {run_index} has no trajectory.")
    headers = {"Content-Length": str(entry.document_bytes)}
    return StreamingResponse(entry.read_document(), media_type="application/json", headers=headers)


async def _artifact(
    platform: Platform, run_id: str, row: str, run_index: str, path: str
) -> Response:
    async with platform.db.read() as session:
        sample = await downloads.sample_of(session, run_id, row, run_index)
    root = artifacts_dir(platform.settings, run_id)
    target = safe_path(root, sample.rollout_id, path)
    inside = target.resolve().is_relative_to(root.resolve())
    if not inside or not target.is_file():
        raise NotFound(f"The sample of row {row}, run {run_index} has no artifact '{path}'.")
    # Whatever the rollout wrote is sent as plain bytes: a browser must not run it here.
    return FileResponse(target, media_type="application/octet-stream", filename=target.name)
