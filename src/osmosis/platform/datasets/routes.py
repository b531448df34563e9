"""Datasets over HTTP (platform-api.md §3.1), and the addresses that take and give their bytes."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Path, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.datasets import housekeeping, service
from osmosis.platform.datasets.places import dataset_path, uploads_path
from osmosis.platform.datasets.uploads import receive_part
from osmosis.platform.db.models import Dataset, DatasetLog, Job, User
from osmosis.platform.deps import CurrentPlatform, CurrentScope
from osmosis.platform.jobs.service import JobKind
from osmosis.platform.paging import LogQuery, PageQuery, fetch_log_page, fetch_page, iso
from osmosis.platform.platform import Platform
from osmosis.platform.security.signing import presigned_claims, presigned_url
from osmosis.wire.errors import Conflict, NotFound, ValidationFailed

INGEST = "dataset-ingest"
MAX_PARTS = 100_000

router = APIRouter()

Ref = Annotated[str, Path(max_length=400)]


class NewDataset(BaseModel):
    file_name: str = Field(max_length=1000)
    file_size: int
    extension: str = Field(max_length=20)
    overwrite_dataset_id: str | None = Field(default=None, max_length=64)


class UploadedPart(BaseModel):
    PartNumber: int = Field(ge=1, le=MAX_PARTS)
    ETag: str = Field(max_length=200)


class Completion(BaseModel):
    file_extension: str | None = Field(default=None, max_length=20)
    parts: list[UploadedPart] | None = Field(default=None, max_length=MAX_PARTS)


def setup(app: FastAPI, platform: Platform) -> None:
    """Register the job that takes datasets in, and the hourly look at what may go."""

    async def on_result(session: AsyncSession, job: Job, answer: dict[str, Any]) -> None:
        service.apply_report(session, await session.get_one(Dataset, job.subject_id), answer)

    async def on_failure(session: AsyncSession, job: Job, reason: str) -> None:
        service.apply_failure(session, await session.get_one(Dataset, job.subject_id), reason)

    platform.jobs.register(
        JobKind(
            name=INGEST,
            module="osmosis.platform.datasets.ingest_process",
            on_result=on_result,
            on_failure=on_failure,
            topics=lambda job: (f"dataset:{job.subject_id}",),
        )
    )
    platform.background("datasets", lambda: housekeeping.keep_house(platform))


# ---------------------------------------------------------------------- uploading


@router.post("/api/cli/datasets")
async def create(
    body: NewDataset,
    request: Request,
    response: Response,
    platform: CurrentPlatform,
    scope: CurrentScope,
) -> dict[str, Any]:
    async with platform.db.write() as session:
        dataset = await service.create(
            session,
            platform.settings,
            workspace_id=scope.workspace.id,
            creator_id=scope.principal.user_id,
            name=body.file_name,
            size_bytes=body.file_size,
            extension=body.extension,
            overwrite_id=body.overwrite_dataset_id,
        )
    response.status_code = 201
    creator = scope.principal.name or scope.principal.email
    return {**rendered(dataset, creator), "upload": _instructions(request, platform, dataset)}


def _instructions(request: Request, platform: Platform, dataset: Dataset) -> dict[str, Any]:
    sizes = service.part_sizes(dataset)
    base = f"/api/uploads/datasets/{dataset.id}/parts"
    expires_in = platform.settings.upload_url_s
    if not (dataset.upload or {}).get("multipart"):
        return {
            "method": "simple",
            "presigned_url": presigned_url(request, "PUT", f"{base}/1"),
            "upload_headers": {},
            "expires_in": expires_in,
        }
    return {
        "method": "multipart",
        "part_size": sizes[0],
        "total_parts": len(sizes),
        "expires_in": expires_in,
        "presigned_urls": [
            {
                "part_number": number,
                "presigned_url": presigned_url(request, "PUT", f"{base}/{number}"),
                "size": size,
            }
            for number, size in enumerate(sizes, 1)
        ],
    }


@router.put("/api/uploads/datasets/{dataset_id}/parts/{number}")
async def put_part(
    dataset_id: Annotated[str, Path(pattern="^[0-9a-f]{32}$")],
    number: Annotated[int, Path(ge=1, le=MAX_PARTS)],
    request: Request,
    platform: CurrentPlatform,
) -> Response:
    """Take a part; the address authenticates itself."""
    presigned_claims(request, max_age_s=platform.settings.upload_url_s)
    async with platform.db.read() as session:
        dataset = service.require_uploading(await session.get(Dataset, dataset_id))
    digest = await receive_part(
        request.stream(),
        request.headers.get("content-length"),
        uploads_path(platform.settings, dataset.id),
        number,
        service.part_sizes(dataset)[number - 1],
    )
    return Response(status_code=200, headers={"ETag": f'"{digest}"'})


@router.post("/api/cli/datasets/{ref}/complete")
async def complete(
    ref: Ref, body: Completion, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    """Idempotent: a repeated call answers with the dataset as it is."""
    settings = platform.settings
    async with platform.db.write() as session:
        dataset = await session.get(Dataset, ref)
        if dataset is None or dataset.workspace_id != scope.workspace.id:
            raise NotFound("There is no such upload.", platform_code="DATASET_NOT_FOUND")
        if dataset.status == "uploading":
            extension = (body.file_extension or dataset.extension).lower().removeprefix(".")
            if extension != dataset.extension:
                raise ValidationFailed(
                    f"The upload was begun as .{dataset.extension} and completed as .{extension}.",
                    field="file_extension",
                )
            parts = None if body.parts is None else [(p.PartNumber, p.ETag) for p in body.parts]
            service.check_parts(settings, dataset, parts)
            await service.finish_upload(session, dataset)
            payload = service.ingest_payload(settings, dataset)
            await platform.jobs.enqueue(session, INGEST, dataset.id, payload)
        elif dataset.status == "cancelled":
            service.require_uploading(dataset)
        creator = await _creator(session, dataset)
    return rendered(dataset, creator)


@router.post("/api/cli/datasets/{ref}/abort")
async def abort(ref: Ref, platform: CurrentPlatform, scope: CurrentScope) -> dict[str, Any]:
    """Give an upload up; what is complete already stays."""
    async with platform.db.write() as session:
        dataset = await session.get(Dataset, ref)
        if dataset is None or dataset.workspace_id != scope.workspace.id:
            raise NotFound("There is no such upload.", platform_code="DATASET_NOT_FOUND")
        aborted = dataset.status == "uploading"
        if aborted:
            service.cancel_upload(session, dataset, "The upload was aborted.")
    if aborted:
        await housekeeping.free(platform, dataset.id)
    return {}


# ---------------------------------------------------------------------- reading


@router.get("/api/cli/datasets")
async def list_datasets(
    platform: CurrentPlatform, scope: CurrentScope, page: PageQuery
) -> dict[str, Any]:
    query = service.live_datasets(scope.workspace.id).order_by(
        Dataset.created_at.desc(), Dataset.id
    )
    async with platform.db.read() as session:
        found, total = await fetch_page(session, query, page)
        people = select(User).where(User.id.in_({d.creator_id for d in found if d.creator_id}))
        names = {u.id: u.name or u.email for u in (await session.execute(people)).scalars()}
    items = [rendered(dataset, names.get(dataset.creator_id or "")) for dataset in found]
    return page.body("datasets", items, total)


@router.get("/api/cli/datasets/{ref}")
async def info(ref: Ref, platform: CurrentPlatform, scope: CurrentScope) -> dict[str, Any]:
    async with platform.db.read() as session:
        dataset = await service.dataset_by_ref(session, scope.workspace.id, ref)
        creator = await _creator(session, dataset)
        error = await service.first_error(session, dataset)
    return {
        **rendered(dataset, creator),
        "data_preview": dataset.preview,
        "columns": dataset.columns,
        "sha256": dataset.sha256,
        "error_message": error,
    }


@router.get("/api/cli/datasets/{ref}/logs")
async def logs(
    ref: Ref, platform: CurrentPlatform, scope: CurrentScope, page: LogQuery
) -> dict[str, Any]:
    async with platform.db.read() as session:
        dataset = await service.dataset_by_ref(session, scope.workspace.id, ref)
        return await fetch_log_page(session, DatasetLog, DatasetLog.dataset_id == dataset.id, page)


@router.get("/api/cli/datasets/{ref}/download")
async def download(
    ref: Ref, request: Request, platform: CurrentPlatform, scope: CurrentScope
) -> dict[str, Any]:
    async with platform.db.read() as session:
        dataset = await service.dataset_by_ref(session, scope.workspace.id, ref)
    if dataset.status != "uploaded":
        raise Conflict(
            f"The dataset '{dataset.name}' is not ready: it is '{dataset.status}'.",
            hint=f"`osmosis dataset info {dataset.name}` shows its state.",
            platform_code="DATASET_NOT_READY",
        )
    file_name = f"{dataset.name}.{dataset.extension}"
    path = f"/api/downloads/datasets/{dataset.id}/{quote(file_name, safe='')}"
    return {
        "presigned_url": presigned_url(request, "GET", path),
        "expires_in": platform.settings.presigned_url_s,
        "file_name": file_name,
        "file_size": dataset.size_bytes,
    }


@router.get("/api/downloads/datasets/{dataset_id}/{file_name}")
async def give_bytes(
    dataset_id: Annotated[str, Path(pattern="^[0-9a-f]{32}$")],
    file_name: str,
    request: Request,
    platform: CurrentPlatform,
) -> FileResponse:
    """The file itself; the address authenticates itself."""
    presigned_claims(request)
    async with platform.db.read() as session:
        dataset = await session.get(Dataset, dataset_id)
    path = dataset_path(platform.settings, dataset) if dataset is not None else None
    if path is None or not path.is_file():
        raise NotFound("The dataset was deleted.", platform_code="DATASET_NOT_FOUND")
    return FileResponse(path, filename=file_name, media_type="application/octet-stream")


@router.delete("/api/cli/datasets/{ref}")
async def delete(ref: Ref, platform: CurrentPlatform, scope: CurrentScope) -> dict[str, Any]:
    async with platform.db.write() as session:
        dataset = await service.dataset_by_ref(session, scope.workspace.id, ref)
        await service.delete(session, dataset)
    await housekeeping.free(platform, dataset.id)
    return {"id": dataset.id, "file_name": dataset.name, "status": "deleted"}


async def _creator(session: AsyncSession, dataset: Dataset) -> str | None:
    user = await session.get(User, dataset.creator_id) if dataset.creator_id else None
    return (user.name or user.email) if user else None


def rendered(dataset: Dataset, creator: str | None) -> dict[str, Any]:
    """A dataset on the wire, as in a list."""
    return {
        "id": dataset.id,
        "file_name": dataset.name,
        "file_size": dataset.size_bytes,
        "status": dataset.status,
        "file_format": dataset.extension,
        "original_file_format": dataset.extension,
        "original_file_size": dataset.size_bytes,
        "row_count": dataset.row_count,
        "creator_name": creator,
        "created_at": iso(dataset.created_at),
        "updated_at": iso(dataset.updated_at),
    }
