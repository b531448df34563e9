"""Imports over HTTP (platform-api.md §3.5), and the addresses that take their bytes."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from osmosis.platform.datasets.uploads import receive_part
from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Run
from osmosis.platform.deps import CurrentPlatform, CurrentScope
from osmosis.platform.evals.routes import run_url
from osmosis.platform.imports import service
from osmosis.platform.imports.declaration import Declaration
from osmosis.platform.imports.sessions import ImportSession, find_session, open_session
from osmosis.platform.paging import iso
from osmosis.platform.security.signing import presigned_claims, presigned_url
from osmosis.wire.errors import Conflict, NotFound, ValidationFailed

MAX_PATHS = 100
UPLOAD_ROUTE = "/api/uploads/imports"

router = APIRouter()
SessionId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


class WantedUploads(BaseModel):
    paths: list[str] = Field(min_length=1, max_length=MAX_PATHS)


class CompletedUpload(BaseModel):
    path: str = Field(min_length=1, max_length=1024)


@router.post("/api/cli/eval-runs/imports")
async def start(
    body: Declaration, request: Request, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    body.check_files()
    if not body.source_rows:
        raise ValidationFailed("The run selects no row.", field="run")
    session = await asyncio.to_thread(open_session, platform.settings, scope.workspace.id, body)
    async with platform.db.read() as database:
        _, run = await service.imported_run(database, scope.workspace.id, body.local_run_id)
    if not service.holds(run, session):
        service.require_new(run, body)
        run = None
    return await _state(request, scope.workspace.name, session, run, platform.settings.upload_url_s)


@router.post("/api/cli/eval-runs/imports/{session_id}/uploads")
async def uploads(
    session_id: SessionId,
    wanted: WantedUploads,
    request: Request,
    platform: CurrentPlatform,
    scope: CurrentScope,
) -> dict[str, Any]:
    session = await asyncio.to_thread(
        find_session, platform.settings, scope.workspace.id, session_id
    )
    files = [session.file(path) for path in dict.fromkeys(wanted.paths)]
    here = await asyncio.to_thread(session.uploaded)
    answer: list[dict[str, Any]] = []
    for file in files:
        if file.path in here:
            continue
        path = f"{UPLOAD_ROUTE}/{session.id}/{session.numbers[file.path]}"
        upload = {
            "method": "simple",
            "presigned_url": presigned_url(request, "PUT", path),
            "upload_headers": {},
            "expires_in": platform.settings.upload_url_s,
        }
        answer.append({**file.model_dump(), "upload": upload})
    return {"files": answer}


@router.put(UPLOAD_ROUTE + "/{session_id}/{number}")
async def put_file(
    session_id: SessionId,
    number: Annotated[int, Path(ge=0, lt=2**31)],
    request: Request,
    platform: CurrentPlatform,
) -> Response:
    """Take a file; the address authenticates itself."""
    presigned_claims(request, max_age_s=platform.settings.upload_url_s)
    session = await asyncio.to_thread(find_session, platform.settings, None, session_id)
    if number >= len(session.declaration.files):
        raise NotFound("The import has no such file.")
    file = session.declaration.files[number]
    # It gets its place only when it is what was declared.
    incoming = session.folder / "incoming"
    digest = await receive_part(
        request.stream(), request.headers.get("content-length"), incoming, number, file.size
    )
    received = incoming / str(number)
    if digest != file.sha256:
        received.unlink(missing_ok=True)
        raise ValidationFailed(
            f"{file.path} is not the file that was declared: its SHA-256 differs.",
            hint="Start the upload again.",
        )
    received.replace(session.uploads / str(number))
    return Response(status_code=200, headers={"ETag": f'"{digest}"'})


@router.post("/api/cli/eval-runs/imports/{session_id}/uploads/complete")
async def complete(
    session_id: SessionId, body: CompletedUpload, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    session = await asyncio.to_thread(
        find_session, platform.settings, scope.workspace.id, session_id
    )
    file = session.file(body.path)
    if not session.place(file.path).is_file():
        async with platform.db.read() as database:
            _, run = await service.imported_run(
                database, scope.workspace.id, session.declaration.local_run_id
            )
        if not service.holds(run, session):
            raise Conflict(f"{file.path} was not uploaded.", platform_code="UPLOAD_MISSING")
    return {"path": file.path, "state": "uploaded"}


@router.post("/api/cli/eval-runs/imports/{session_id}/finalize")
async def finalize(
    session_id: SessionId, request: Request, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    session = await asyncio.to_thread(
        find_session, platform.settings, scope.workspace.id, session_id
    )
    run = await service.finalize(platform, scope, session)
    return await _state(request, scope.workspace.name, session, run, platform.settings.upload_url_s)


async def _state(
    request: Request, workspace: str, session: ImportSession, run: Run | None, lifetime_s: int
) -> dict[str, Any]:
    """The import as the client checks it; ``run`` when it is finished."""
    here = set(session.numbers) if run else await asyncio.to_thread(session.uploaded)
    expires_at: datetime | None = None if run else utc_now() + timedelta(seconds=lifetime_s)
    return {
        "session_id": session.id,
        "status": "finalized" if run else "uploading",
        "expected_files": len(session.numbers),
        "uploaded_files": len(here),
        "files": [
            {**file.model_dump(), "state": "uploaded" if file.path in here else "pending"}
            for file in session.declaration.files
        ],
        "expires_at": iso(expires_at) if expires_at else None,
        "eval_run_id": run.id if run else None,
        "eval_run_name": run.name if run else None,
        "platform_url": run_url(request, workspace, run) if run else None,
    }
