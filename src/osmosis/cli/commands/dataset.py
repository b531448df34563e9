"""``osmosis dataset``: check files, upload them, look at what is there."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
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
from osmosis.cli.output.progress import transfer_progress
from osmosis.cli.output.questions import confirm
from osmosis.cli.output.render import to_json
from osmosis.cli.session import session
from osmosis.wire.errors import ValidationFailed

DEFAULT_PREVIEW_ROWS = 5
IN_PROGRESS = ("pending", "uploading", "processing")

app = group("dataset", "Upload datasets and look at them.")


@app.command()
@click.argument("file", type=FILE)
@click.option("--overwrite", is_flag=True, help="Replace the dataset of the same name.")
@click.option("--wait", is_flag=True, help="Wait until the platform has checked it.")
@yes_flag
def upload(file: Path, overwrite: bool, wait: bool, yes: bool) -> Operation:
    """Check a file and upload it. The dataset is named after the file, without its extension."""
    from osmosis.client.dataset_files import create_dataset, send_dataset, wait_until_ready

    report = _checked(file)
    name = file.stem
    confirm(
        f"Upload {file.name} ({size(file.stat().st_size)}, {plural(report.row_count, 'row')}) "
        f"as '{name}'?",
        yes=yes,
        default=True,
        warnings=report.warnings,
    )
    created = create_dataset(session.api, file, name, overwrite=overwrite)
    with transfer_progress(file.name, file.stat().st_size) as progress:
        done = send_dataset(session.api, file, created, progress)
    if wait:
        done = wait_until_ready(session.api, str(done.get("id", created["id"])))
    status = str(done.get("status"))
    steps = [NextStep("Name it in a config:", f'dataset = "{name}"')]
    if status != "uploaded":
        steps.insert(
            0, NextStep("The platform checks it now. See:", f"osmosis dataset info {quote(name)}")
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
        hints.append(NextStep("See what is wrong:", f"osmosis dataset logs {quote(name)}"))
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
    from osmosis.client.dataset_files import dataset_extension

    extension = dataset_extension(file)
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
    return log_listing(page, f"osmosis dataset logs {quote(name)}", session.context)


@app.command()
@click.argument("name")
@click.option(
    "--output",
    "-o",
    type=FILE,
    metavar="PATH",
    help="The file to write, or a directory that takes it (else the current one).",
)
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
def download(name: str, output: Path | None, overwrite: bool) -> Operation:
    """Fetch the file of a dataset, as it was uploaded."""
    from osmosis.client.dataset_files import download_dataset

    target = output.expanduser() if output else None
    shown = session.api.dataset(name)
    with transfer_progress(name, int(shown.get("file_size") or 0)) as progress:
        dataset, path = download_dataset(
            session.api, str(shown["id"]), target, overwrite=overwrite, progress=progress
        )
    return Operation(
        operation="dataset.download",
        message=f"The dataset {dataset.get('file_name', name)} is at {path}.",
        resource={
            **_without_preview(dataset),
            "output_path": str(path.absolute()),
            **session.context,
        },
    )


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
    from osmosis.client.dataset_files import dataset_extension

    report = _report(file, dataset_extension(file))
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


def _invalid(file: Path, lines: list[str]) -> str:
    return "\n  ".join([f"{file.name} is not a usable dataset:", *lines])


def _row_section(index: int, row: Any) -> Section:
    if not isinstance(row, dict):
        return Section(f"Row {index}", lines=[to_json(row)])
    pairs = [(str(key), v if isinstance(v, str) else to_json(v)) for key, v in row.items()]
    return Section(f"Row {index}", rows=pairs)


def _without_preview(dataset: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in dataset.items() if key != "data_preview"}
