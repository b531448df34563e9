"""``osmosis dataset``: check files, upload them, look at what is there."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import click

from osmosis.cli.commands.log_lines import log_listing
from osmosis.cli.commands.options import (
    FILE,
    cursor_flag,
    group,
    log_limit_flag,
    paging,
    paging_flags,
    yes_flag,
)
from osmosis.cli.output import Column, Detail, Listing, NextStep, Operation, Section
from osmosis.cli.output.format import count, minute, moment, plural, size, text
from osmosis.cli.output.messages import warn
from osmosis.cli.output.progress import upload_progress
from osmosis.cli.output.questions import confirm
from osmosis.cli.output.render import to_json
from osmosis.cli.session import session
from osmosis.wire.errors import Conflict, NotFound, OsmosisError, ValidationFailed

EXTENSIONS = ("csv", "jsonl", "parquet")
DEFAULT_PREVIEW_ROWS = 5
IN_PROGRESS = ("pending", "uploading", "processing")
READY_WAIT_S = 600.0
READY_POLL_S = 0.2

app = group("dataset", "Upload datasets and look at them.")


@app.command()
@click.argument("file", type=FILE)
@click.option("--overwrite", is_flag=True, help="Replace the dataset of the same name.")
@click.option("--wait", is_flag=True, help="Wait until the platform has checked it.")
@yes_flag
def upload(file: Path, overwrite: bool, wait: bool, yes: bool) -> Operation:
    """Check a file and upload it. The dataset is named after the file, without its extension."""
    report = _checked(file)
    name = file.stem
    confirm(
        f"Upload {file.name} ({size(file.stat().st_size)}, {plural(report.row_count, 'row')}) "
        f"as '{name}'?",
        yes=yes,
        default=True,
        warnings=report.warnings,
    )
    created = _create(file, name, overwrite)
    dataset_id = str(created["id"])
    done = _send(file, dataset_id, created.get("upload"))
    if wait:
        done = _wait_until_ready(str(done.get("id", dataset_id)))
    status = str(done.get("status"))
    steps = [NextStep("Name it in a config:", f'dataset = "{name}"')]
    if status != "uploaded":
        steps.insert(
            0, NextStep("The platform checks it now. See:", f"osmosis dataset info {name}")
        )
    resource = {k: v for k, v in done.items() if k not in ("data_preview", "upload")}
    return Operation(
        operation="dataset.upload",
        message=f"The dataset {name} is uploaded: {plural(report.row_count, 'row')}, "
        f"{size(file.stat().st_size)}.",
        resource={**resource, **session.context},
        extra={"warnings": report.warnings} if report.warnings else {},
        next_steps=steps,
    )


@app.command("list")
@paging_flags
def list_datasets(limit: int | None, everything: bool) -> Listing:
    """List the datasets of the workspace."""
    chosen = paging(limit, everything)
    page = session.api.datasets(**chosen)
    return Listing(
        items=[_without_preview(item) for item in page.items],
        columns=(
            Column("Name", lambda d: text(d.get("file_name")), kind="name"),
            Column("Status", lambda d: text(d.get("status")), kind="status"),
            Column("Rows", lambda d: count(d.get("row_count")), justify="right"),
            Column("Size", lambda d: size(d.get("file_size")), justify="right"),
            Column("Uploaded", lambda d: minute(d.get("created_at")), kind="time"),
            Column("Uploaded by", lambda d: text(d.get("creator_name"))),
        ),
        total_count=page.total_count,
        has_more=page.has_more,
        next_offset=page.next_offset,
        extra={**page.extra, **session.context},
        empty="No datasets yet.",
        hints=()
        if page.items
        else (NextStep("Upload one:", "osmosis dataset upload data/FILE.jsonl"),),
    )


@app.command()
@click.argument("name")
def info(name: str) -> Detail:
    """Show one dataset."""
    dataset = session.api.dataset(name)
    rows = [
        ("File", text(dataset.get("file_name"))),
        ("Status", text(dataset.get("status"))),
        ("File format", text(dataset.get("file_format"))),
        ("Total rows", count(dataset.get("row_count"))),
        ("Size", size(dataset.get("file_size"))),
        ("Uploaded", moment(dataset.get("created_at"))),
        ("Uploaded by", text(dataset.get("creator_name"))),
    ]
    if columns := dataset.get("columns"):
        rows.insert(4, ("Columns", ", ".join(map(str, columns))))
    hints: list[NextStep] = []
    if dataset.get("status") == "error":
        hints.append(NextStep("See what is wrong:", f"osmosis dataset logs {name}"))
    if dataset.get("platform_url"):
        hints.append(NextStep("View:", str(dataset["platform_url"])))
    return Detail(data={**dataset, **session.context}, rows=rows, hints=hints)


@app.command()
@click.argument("name")
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=DEFAULT_PREVIEW_ROWS,
    metavar="N",
    help="How many rows to show.",
)
def preview(name: str, rows: int) -> Detail:
    """Show the first rows of a dataset as the platform read them."""
    dataset = session.api.dataset(name)
    stored = dataset.get("data_preview")
    shown: list[Any] = stored[:rows] if isinstance(stored, list) else [stored]
    available = stored is not None
    data: dict[str, Any] = {
        "dataset": {key: dataset.get(key) for key in ("id", "file_name", "status", "row_count")},
        "rows": shown if available else [],
        "requested_rows": rows,
        "returned_rows": len(shown) if available else 0,
        "available": available,
        **session.context,
    }
    facts = [("File", text(dataset.get("file_name"))), ("Status", text(dataset.get("status")))]
    if not available:
        busy = dataset.get("status") in IN_PROGRESS
        message = "Still processing; try again shortly." if busy else "No preview is available."
        return Detail(data={**data, "message": message}, rows=[*facts, ("Preview", message)])
    sections = [_row_section(index, row) for index, row in enumerate(shown)]
    return Detail(data=data, rows=facts, sections=sections)


@app.command()
@click.argument("file", type=FILE)
def validate(file: Path) -> Detail:
    """Check a file as the platform will; nothing is sent anywhere."""
    extension = _extension(file)
    report = _report(file, extension)
    lines = report.error_lines()
    data = {
        "valid": report.valid,
        "file": str(file),
        "file_name": file.name,
        "extension": extension,
        "file_size": file.stat().st_size,
        "row_count": report.row_count,
        "columns": report.columns,
        "errors": lines,
        "warnings": report.warnings,
    }
    if not report.valid:
        raise ValidationFailed(_invalid(file, lines), details=data)
    rows = [
        ("File", file.name),
        ("Valid", "yes"),
        ("Rows", count(report.row_count)),
        ("Columns", ", ".join(report.columns)),
        ("Mode", report.mode),
        ("Size", size(file.stat().st_size)),
    ]
    sections = [Section("Warnings", lines=report.warnings)] if report.warnings else []
    return Detail(data=data, rows=rows, sections=sections)


@app.command()
@click.argument("name")
@log_limit_flag
@cursor_flag
def logs(name: str, limit: int, cursor: str | None) -> Listing:
    """Show how the platform checked a dataset."""
    page = session.api.dataset_logs(name, limit=limit, cursor=cursor)
    return log_listing(page, f"osmosis dataset logs {name}", session.context)


@app.command()
@click.argument("name")
@yes_flag
def delete(name: str, yes: bool) -> Operation:
    """Delete a dataset. Runs that used it keep their results."""
    dataset = session.api.dataset(name)
    shown = dataset.get("file_name", name)
    rows = plural(dataset["row_count"], "row") if dataset.get("row_count") else "unread"
    confirm(f"Delete the dataset {shown} ({rows})?", yes=yes)
    session.api.delete_dataset(str(dataset["id"]))
    return Operation(
        operation="dataset.delete",
        message=f"The dataset {shown} is deleted.",
        resource={"id": dataset["id"], "file_name": shown, **session.context},
    )


def _checked(file: Path) -> Any:
    report = _report(file, _extension(file))
    if not report.valid:
        lines = report.error_lines()
        raise ValidationFailed(_invalid(file, lines), details={"errors": lines})
    for warning in report.warnings:
        warn("DATASET", warning)
    return report


def _report(file: Path, extension: str) -> Any:
    # The reader of Parquet files is heavy; the other dataset commands do without it.
    from osmosis.dataset.validation import validate as validate_file

    return validate_file(file, extension)


def _extension(file: Path) -> str:
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


def _invalid(file: Path, lines: list[str]) -> str:
    return "\n  ".join([f"{file.name} is not a usable dataset:", *lines])


def _create(file: Path, name: str, overwrite: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "file_name": name,
        "file_size": file.stat().st_size,
        "extension": _extension(file),
    }
    try:
        return session.api.create_dataset(body)
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
        return session.api.create_dataset({**body, "overwrite_dataset_id": str(existing)})


def _send(file: Path, dataset_id: str, upload: Any) -> dict[str, Any]:
    """PUT the bytes and complete; an upload that breaks off is taken back."""
    # Only an upload needs these.
    from osmosis.client.uploads import repeat, send_file

    if not isinstance(upload, dict):
        raise ValidationFailed("The platform gave no way to upload the file.")
    try:
        with upload_progress(file.name, file.stat().st_size) as progress:
            parts = send_file(file, upload, progress=progress)
    except BaseException:
        with contextlib.suppress(OsmosisError):
            session.api.abort_dataset(dataset_id)
        raise
    body: dict[str, Any] = {"file_extension": _extension(file)}
    if parts:
        body["parts"] = parts
    return repeat(lambda: session.api.complete_dataset(dataset_id, body))


def _wait_until_ready(dataset_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + READY_WAIT_S
    while True:
        dataset = session.api.dataset(dataset_id)
        status = dataset.get("status")
        if status == "uploaded":
            return dataset
        if status not in IN_PROGRESS:
            entries = session.api.dataset_logs(dataset_id, limit=5).entries
            reasons = [str(e.get("message")) for e in entries if e.get("level") == "error"]
            raise ValidationFailed(
                "\n  ".join(["The platform could not use the dataset:", *reasons]),
                details={"status": status},
            )
        if time.monotonic() > deadline:
            raise OsmosisError(f"The dataset is still {status} after {READY_WAIT_S:g} s.")
        time.sleep(READY_POLL_S)


def _row_section(index: int, row: Any) -> Section:
    if not isinstance(row, dict):
        return Section(f"Row {index}", lines=[to_json(row)])
    pairs = [(str(key), v if isinstance(v, str) else to_json(v)) for key, v in row.items()]
    return Section(f"Row {index}", rows=pairs)


def _without_preview(dataset: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in dataset.items() if key != "data_preview"}
