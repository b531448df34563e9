"""The life of a dataset: created, uploaded, completed, processed, replaced, deleted.

A name belongs to the live dataset that was completed last. An upload that is not complete holds
no name, and neither does one whose content was refused, so both may simply be done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Select, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.dataset.formats import FORMATS
from osmosis.dataset.validation import MAX_FILE_BYTES
from osmosis.platform.datasets.places import dataset_path, uploads_path
from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Dataset, DatasetLog, Run
from osmosis.platform.settings import Settings
from osmosis.wire.errors import Conflict, NotFound, ValidationFailed, did_you_mean

MAX_NAME_CHARACTERS = 200
SUGGESTED_FROM = 500
SHOWN_RUNS = 3
HOLDS_NAME = ("pending", "processing", "uploaded")
ACTIVE_RUN = ("pending", "running")

__all__ = ["dataset_by_ref", "dataset_path"]


# ---------------------------------------------------------------------- finding


def live_datasets(workspace_id: str) -> Select[Dataset]:
    """The workspace's datasets that are not deleted or replaced."""
    return select(Dataset).where(Dataset.workspace_id == workspace_id, Dataset.deleted_at.is_(None))


async def dataset_by_ref(session: AsyncSession, workspace_id: str, ref: str) -> Dataset:
    """The live dataset with this name or id; of one name, the one that may be used."""
    query = live_datasets(workspace_id).where(or_(Dataset.name == ref, Dataset.id == ref))
    found = (await session.execute(query)).scalars().all()
    if found:
        return max(found, key=_precedence)
    names = select(Dataset.name).where(
        Dataset.workspace_id == workspace_id, Dataset.deleted_at.is_(None)
    )
    known = (await session.execute(names.limit(SUGGESTED_FROM))).scalars().all()
    raise NotFound(
        f"There is no dataset '{ref[:MAX_NAME_CHARACTERS]}'.{did_you_mean(ref, known)}",
        hint="`osmosis dataset list` shows those of the workspace.",
        platform_code="DATASET_NOT_FOUND",
    )


def _precedence(dataset: Dataset) -> tuple[bool, bool, Any]:
    return dataset.status in HOLDS_NAME, dataset.status != "uploading", dataset.created_at


async def _holder(session: AsyncSession, workspace_id: str, name: str) -> Dataset | None:
    query = live_datasets(workspace_id).where(Dataset.name == name, Dataset.status.in_(HOLDS_NAME))
    return (await session.execute(query)).scalars().first()


# ---------------------------------------------------------------------- uploading


async def create(
    session: AsyncSession,
    settings: Settings,
    *,
    workspace_id: str,
    creator_id: str,
    name: str,
    size_bytes: int,
    extension: str,
    overwrite_id: str | None,
) -> Dataset:
    """Begin an upload. A name that is taken raises :class:`Conflict` with the id of the holder."""
    name = checked_name(name)
    extension = extension.lower().removeprefix(".")
    if extension not in FORMATS:
        raise ValidationFailed(
            f"A dataset is csv, jsonl or parquet, not '{extension[:20]}'."
            f"{did_you_mean(extension, FORMATS)}",
            field="extension",
        )
    if not 1 <= size_bytes <= MAX_FILE_BYTES:
        raise ValidationFailed(
            f"A dataset has 1 byte to {MAX_FILE_BYTES // 1024**3} GiB; this one has "
            f"{size_bytes:,} bytes.",
            field="file_size",
        )
    holder = await _holder(session, workspace_id, name)
    if overwrite_id is not None:
        query = live_datasets(workspace_id).where(Dataset.id == overwrite_id)
        if (await session.execute(query)).first() is None:
            raise NotFound(
                "The dataset to overwrite is no longer there.",
                hint="Upload again without --overwrite.",
                platform_code="DATASET_NOT_FOUND",
            )
    elif holder is not None:
        raise name_taken(holder)
    part_bytes = size_bytes
    if size_bytes > settings.dataset_simple_bytes:
        part_bytes = settings.dataset_part_bytes
    dataset = Dataset(
        workspace_id=workspace_id,
        name=name,
        extension=extension,
        status="uploading",
        size_bytes=size_bytes,
        replaces_id=overwrite_id,
        creator_id=creator_id,
        upload={"part_bytes": part_bytes, "multipart": part_bytes != size_bytes},
    )
    session.add(dataset)
    await session.flush()
    log(session, dataset, "upload", f"Upload of {size_bytes:,} bytes begun.")
    return dataset


def name_taken(holder: Dataset) -> Conflict:
    return Conflict(
        f"There is already a dataset '{holder.name}'.",
        hint="Upload with --overwrite to replace it, or rename the file.",
        platform_code="DATASET_EXISTS",
        details={"existing_dataset_id": holder.id},
    )


def checked_name(name: str) -> str:
    """A name that can stand in a path, a command and a page."""
    name = name.strip()
    if not name or len(name) > MAX_NAME_CHARACTERS:
        raise ValidationFailed(
            f"A dataset's name has 1 to {MAX_NAME_CHARACTERS} characters.", field="file_name"
        )
    if not name.isprintable() or "/" in name or "\\" in name or name in (".", ".."):
        raise ValidationFailed(
            "A dataset's name may not contain '/', '\\' or control characters.",
            hint="Rename the file.",
            field="file_name",
        )
    return name


def part_sizes(dataset: Dataset) -> list[int]:
    """The exact length of every part of an upload."""
    part_bytes: int = (dataset.upload or {}).get("part_bytes", dataset.size_bytes)
    whole, rest = divmod(dataset.size_bytes, part_bytes)
    return [part_bytes] * whole + ([rest] if rest else [])


def require_uploading(dataset: Dataset | None) -> Dataset:
    if dataset is None or dataset.deleted_at is not None or dataset.status != "uploading":
        raise Conflict(
            "This upload is over: it was completed, aborted or given up.",
            hint="Begin it again with `osmosis dataset upload`.",
            platform_code="UPLOAD_OVER",
        )
    return dataset


def check_parts(
    settings: Settings, dataset: Dataset, parts: Sequence[tuple[int, str]] | None
) -> None:
    """Refuse to complete an upload whose parts are not all here, whole and as announced.

    ``parts`` are the (number, ETag) pairs of a multipart upload, as the client saw them.
    """
    sizes = part_sizes(dataset)
    folder = uploads_path(settings, dataset.id)
    stored = {n: _size(folder / str(n)) for n in range(1, len(sizes) + 1)}
    missing = [n for n, size in stored.items() if size is None]
    wrong = [n for n, size in stored.items() if size not in (None, sizes[n - 1])]
    if missing or wrong:
        arrived = sum(size or 0 for size in stored.values())
        raise ValidationFailed(
            f"The upload is not complete: {arrived:,} of {dataset.size_bytes:,} bytes are here"
            + (f"; part {missing[0]} of {len(sizes)} is missing." if len(sizes) > 1 else "."),
            hint="Upload the file again.",
            platform_code="UPLOAD_INCOMPLETE",
        )
    if parts is not None and sorted(number for number, _ in parts) != sorted(stored):
        raise ValidationFailed(
            f"The upload has the parts 1 to {len(sizes)}; the list names others.",
            platform_code="UPLOAD_PARTS_WRONG",
            field="parts",
        )


async def finish_upload(session: AsyncSession, dataset: Dataset) -> Dataset | None:
    """Make the dataset the holder of its name; returns the one that it replaced."""
    holder = await _holder(session, dataset.workspace_id, dataset.name)
    if holder is not None and dataset.replaces_id is None:
        raise name_taken(holder)
    now = utc_now()
    refused = live_datasets(dataset.workspace_id).where(
        Dataset.name == dataset.name,
        Dataset.status.in_(("error", "cancelled")),
        Dataset.id != dataset.id,
    )
    for old in (await session.execute(refused)).scalars():
        old.deleted_at = now
    if holder is not None:
        holder.deleted_at = now
    dataset.replaces_id = holder.id if holder is not None else None
    dataset.status = "processing"
    log(session, dataset, "upload", f"All {dataset.size_bytes:,} bytes have arrived.")
    if holder is not None:
        log(session, dataset, "upload", f"It replaces the dataset {holder.id}.")
    return holder


def cancel_upload(session: AsyncSession, dataset: Dataset, why: str) -> None:
    dataset.status = "cancelled"
    dataset.deleted_at = utc_now()
    log(session, dataset, "upload", why, level="warning")


# ---------------------------------------------------------------------- processing


def ingest_payload(settings: Settings, dataset: Dataset) -> dict[str, Any]:
    """What the job's process needs."""
    return {
        "path": str(dataset_path(settings, dataset)),
        "uploads": str(uploads_path(settings, dataset.id)),
        "format": dataset.extension,
        "name": f"{dataset.name}.{dataset.extension}",
    }


def apply_report(session: AsyncSession, dataset: Dataset, report: dict[str, Any]) -> None:
    """Take over what the validation found."""
    dataset.sha256 = report["sha256"]
    dataset.columns = report["columns"]
    dataset.preview = report["preview"] or None
    dataset.upload = None
    for warning in report["warnings"]:
        log(session, dataset, "validate", warning, level="warning")
    if report["valid"]:
        dataset.status = "uploaded"
        dataset.row_count = report["row_count"]
        columns = ", ".join(report["columns"][:20])
        log(
            session,
            dataset,
            "validate",
            f"{report['row_count']:,} rows, {report['mode']} mode, columns: {columns}.",
        )
        return
    dataset.status = "error"
    for number, line in enumerate(report["error_lines"]):
        details = report["errors"][number] if number < len(report["errors"]) else None
        log(session, dataset, "validate", line, level="error", details=details)


def apply_failure(session: AsyncSession, dataset: Dataset, reason: str) -> None:
    """The job itself failed, again and again."""
    dataset.status = "error"
    log(
        session, dataset, "validate", f"The dataset could not be processed. {reason}", level="error"
    )


def log(
    session: AsyncSession,
    dataset: Dataset,
    step: str,
    message: str,
    *,
    level: str = "info",
    details: dict[str, Any] | None = None,
) -> None:
    session.add(
        DatasetLog(dataset_id=dataset.id, step=step, message=message, level=level, details=details)
    )


async def first_error(session: AsyncSession, dataset: Dataset) -> str | None:
    """Why a dataset was refused, in one line."""
    if dataset.status != "error":
        return None
    query = (
        select(DatasetLog.message)
        .where(DatasetLog.dataset_id == dataset.id, DatasetLog.level == "error")
        .order_by(DatasetLog.id)
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


# ---------------------------------------------------------------------- deleting


async def delete(session: AsyncSession, dataset: Dataset) -> None:
    """Delete a dataset; refused while a run that is not over uses it."""
    query = select(Run.name).where(Run.dataset_id == dataset.id, Run.status.in_(ACTIVE_RUN))
    runs = (await session.execute(query.order_by(Run.created_at))).scalars().all()
    if runs:
        shown = ", ".join(runs[:SHOWN_RUNS]) + (", …" if len(runs) > SHOWN_RUNS else "")
        raise Conflict(
            f"The dataset '{dataset.name}' is used by {len(runs)} active run"
            f"{'s' if len(runs) > 1 else ''}: {shown}.",
            hint="Wait for them, or stop them with `osmosis eval stop`.",
            platform_code="DATASET_IN_USE",
        )
    dataset.deleted_at = utc_now()
    log(session, dataset, "delete", "Deleted.")


async def bytes_needed(session: AsyncSession, dataset: Dataset) -> bool:
    """Whether somebody may still read the file.

    A run keeps the bytes of a dataset that was replaced, so that it can be retried; one that was
    deleted is gone once no run is active.
    """
    if dataset.deleted_at is None:
        return True
    replaced = select(Dataset.id).where(Dataset.replaces_id == dataset.id)
    runs = select(Run.id).where(Run.dataset_id == dataset.id, Run.deleted_at.is_(None))
    if (await session.execute(replaced.limit(1))).first() is None:
        runs = runs.where(Run.status.in_(ACTIVE_RUN))
    return (await session.execute(runs.limit(1))).first() is not None


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
