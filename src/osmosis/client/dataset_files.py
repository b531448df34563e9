"""Whole datasets to and from the platform: the calls of an upload in their order, a download."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from osmosis.client.api import Api
from osmosis.client.downloads import fetch_one, free_target
from osmosis.client.uploads import repeat, send_file
from osmosis.wire.errors import Conflict, NotFound, OsmosisError, ValidationFailed

EXTENSIONS = ("csv", "jsonl", "parquet")
IN_PROGRESS = ("pending", "uploading", "processing")
READY_WAIT_S = 600.0
READY_POLL_S = 0.2

Progress = Callable[[int], None]


def dataset_extension(file: Path) -> str:
    """The format of a dataset file by its name."""
    if not file.exists():
        raise NotFound(f"There is no file {file}.")
    if not file.is_file():
        raise ValidationFailed(f"{file} is not a file.")
    extension = file.suffix.removeprefix(".").lower()
    if extension not in EXTENSIONS:
        raise ValidationFailed(
            f"{file.name} is not a dataset file: the name must end in .jsonl, .csv or .parquet."
        )
    return extension


def create_dataset(api: Api, file: Path, name: str, *, overwrite: bool) -> dict[str, Any]:
    """Announce an upload; a dataset of the same name is in the way unless it is overwritten."""
    body: dict[str, Any] = {
        "file_name": name,
        "file_size": file.stat().st_size,
        "extension": dataset_extension(file),
    }
    try:
        return api.create_dataset(body)
    except Conflict as conflict:
        existing = conflict.details.get("existing_dataset_id")
        if not existing:
            raise
        if not overwrite:
            raise Conflict(
                f"There is a dataset '{name}' already.",
                hint="Replace it with --overwrite, or rename the file.",
                details=conflict.details,
                platform_code=conflict.platform_code,
            ) from None
        return api.create_dataset({**body, "overwrite_dataset_id": str(existing)})


def send_dataset(
    api: Api, file: Path, created: dict[str, Any], progress: Progress = lambda sent: None
) -> dict[str, Any]:
    """PUT the bytes and complete; an upload that breaks off is taken back."""
    dataset_id, upload = str(created["id"]), created.get("upload")
    if not isinstance(upload, dict):
        raise ValidationFailed("The platform gave no way to upload the file.")
    try:
        parts = send_file(file, upload, progress=progress)
    except BaseException:
        with contextlib.suppress(OsmosisError):
            api.abort_dataset(dataset_id)
        raise
    body: dict[str, Any] = {"file_extension": dataset_extension(file)}
    if parts:
        body["parts"] = parts
    return repeat(lambda: api.complete_dataset(dataset_id, body))


def wait_until_ready(api: Api, dataset_id: str) -> dict[str, Any]:
    """The dataset once the platform has checked it; raises what it found wrong."""
    deadline = time.monotonic() + READY_WAIT_S
    while True:
        dataset = api.dataset(dataset_id)
        status = dataset.get("status")
        if status == "uploaded":
            return dataset
        if status not in IN_PROGRESS:
            entries = api.dataset_logs(dataset_id, limit=5).entries
            reasons = [str(e.get("message")) for e in entries if e.get("level") == "error"]
            raise ValidationFailed(
                "\n  ".join(["The platform could not use the dataset:", *reasons]),
                details={"status": status},
            )
        if time.monotonic() > deadline:
            raise OsmosisError(f"The dataset is still {status} after {READY_WAIT_S:g} s.")
        time.sleep(READY_POLL_S)


def download_dataset(
    api: Api,
    name: str,
    to: Path | None,
    *,
    overwrite: bool,
    progress: Progress = lambda received: None,
) -> tuple[dict[str, Any], Path]:
    """Fetch a dataset's file to ``to``: a path, or a directory that takes it under its own name."""
    dataset = api.dataset(name)
    source = api.dataset_download(str(dataset["id"]))
    target = free_target(to, _file_name(source, dataset), overwrite=overwrite)
    received = 0

    def count(amount: int) -> None:
        nonlocal received
        received += amount
        progress(received)

    size = source.get("file_size")
    try:
        fetch_one(
            str(source["presigned_url"]),
            target,
            size if isinstance(size, int) else None,
            progress=count,
            wait=time.sleep,
        )
    except OsmosisError as error:
        shown = dataset.get("file_name", name)
        raise type(error)(
            f"The dataset {shown} did not arrive: {error.message}.", hint=error.hint
        ) from None
    except OSError as error:
        raise ValidationFailed(f"{target} cannot be written: {error.strerror}.") from None
    return dataset, target


def _file_name(source: dict[str, Any], dataset: dict[str, Any]) -> str:
    """The name that the platform gives the file; never more than a name."""
    given = str(source.get("file_name") or dataset.get("file_name") or "")
    name = given.replace("\\", "/").rsplit("/", 1)[-1]
    if name in ("", ".", ".."):
        raise ValidationFailed("The platform gives the file no name.", hint="Name it with -o FILE.")
    extension = str(dataset.get("file_format") or "")
    return name if not extension or name.endswith(f".{extension}") else f"{name}.{extension}"
