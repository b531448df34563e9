"""``osmosis eval download``: the files of a run, into a directory of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from osmosis.cli.evals.run_view import part
from osmosis.cli.output import NextStep, Operation
from osmosis.cli.output.format import plural, size
from osmosis.cli.output.messages import note
from osmosis.cli.output.progress import transfer_progress
from osmosis.cli.output.questions import confirm
from osmosis.cli.session import session
from osmosis.client.downloads import DownloadPlan, DownloadReport
from osmosis.client.run_files import (
    Manifest,
    parse_kinds,
    parse_rows,
    read_manifest,
    run_directory,
)
from osmosis.wire.errors import OsmosisError, ValidationFailed, WorkspaceRequired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ASK_FROM_BYTES = 100 * 1024 * 1024
HOME = (".osmosis", "evals")
SHOWN_PROBLEMS = 10


def download(
    name: str, *, types: str, rows: str | None, output: Path | None, overwrite: bool, yes: bool
) -> Operation:
    """Fetch what is not there yet; some failures make the result partial."""
    kinds = parse_kinds(types)
    rows = parse_rows(rows) if rows else None
    api = session.api
    run = part(api.eval(name), "eval_run")
    directory = _directory(run, output)
    manifest = _manifest(run, kinds, rows)
    plan = DownloadPlan.of(manifest, directory, overwrite=overwrite)
    amount = plan.size_bytes
    if amount > ASK_FROM_BYTES:
        confirm(
            f"Download {plural(len(plan.wanted), 'file')} ({size(amount)}) to {directory}?",
            yes=yes,
            summary={"files": len(plan.wanted), "bytes": amount, "directory": str(directory)},
        )
    with transfer_progress(str(run["name"]), amount) as progress:
        report = plan.fetch(api, str(run["id"]), progress)
    return _operation(run, kinds, rows, manifest, report)


def save_metrics(run: Mapping[str, Any], directory: Path) -> tuple[str | None, str | None]:
    """``eval info -o``: write metrics.json; gives its path, or why it is not there."""
    directory = directory.expanduser()
    try:
        plan = DownloadPlan.of(_manifest(run, ("metrics",), None), directory, overwrite=True)
        report = plan.fetch(session.api, str(run["id"]))
    except OsmosisError as error:
        return None, error.message
    except OSError as error:
        return None, f"{directory} cannot be written: {error.strerror}."
    if report.problems:
        return None, f"metrics.json did not arrive: {report.problems[0].error}."
    return str((directory / "metrics.json").absolute()), None


def _manifest(run: Mapping[str, Any], kinds: Sequence[str], rows: str | None) -> Manifest:
    name = run.get("name")
    if run.get("status") == "pending":
        raise ValidationFailed(
            f"The run {name} has not begun; there is nothing to download yet.",
            hint=f"Follow it with `osmosis eval watch {name}`.",
        )
    manifest = read_manifest(session.api.eval_manifest(str(run["id"]), kinds, rows), kinds)
    if not manifest.files:
        problem = f": {manifest.refused[0].error}" if manifest.refused else ""
        raise ValidationFailed(
            f"The run {name} has no files of the type {', '.join(kinds)}{problem}.",
            hint="Choose others with --type.",
            details={"files_failed": [problem.body() for problem in manifest.refused]},
        )
    return manifest


def _directory(run: Mapping[str, Any], output: Path | None) -> Path:
    if output is not None:
        directory = output.expanduser()
    else:
        try:
            home = session.root.joinpath(*HOME)
        except WorkspaceRequired as error:
            error.hint = "Name the directory to write with -o DIR."
            raise
        directory = run_directory(home, str(run["name"]), str(run["id"]))
    if directory.exists() and not directory.is_dir():
        raise ValidationFailed(f"{directory} is not a directory.")
    return directory


def _operation(
    run: Mapping[str, Any],
    kinds: Sequence[str],
    rows: str | None,
    manifest: Manifest,
    report: DownloadReport,
) -> Operation:
    for problem in report.problems[:SHOWN_PROBLEMS]:
        note(f"{problem.path}: {problem.error}")
    if len(report.problems) > SHOWN_PROBLEMS:
        note(f"... and {len(report.problems) - SHOWN_PROBLEMS} more.")
    status = "success" if report.complete else "partial"
    return Operation(
        operation="eval.download",
        status=status,
        message=_message(run, report),
        resource={
            "eval_run": {"id": run["id"], "name": run["name"]},
            "status": status,
            "selected_types": list(kinds),
            "files_downloaded": report.downloaded,
            "files_skipped": report.skipped,
            "files_failed": [problem.body() for problem in report.problems],
            "bytes_downloaded": report.bytes_downloaded,
            "total_files": len(manifest.files),
            "total_bytes": manifest.total_bytes,
            "breakdown": manifest.breakdown(),
            "manifest_totals": manifest.totals,
            "output_path": str(report.directory.absolute()),
            "rows": rows,
            **session.context,
        },
        next_steps=()
        if report.complete
        else (NextStep("Try the rest again:", f"osmosis eval download {run['name']}"),),
        exit_code=0 if report.complete else 1,
    )


def _message(run: Mapping[str, Any], report: DownloadReport) -> str:
    if report.complete and not report.downloaded:
        there = plural(report.skipped, "file")
        return f"Nothing to fetch: {there} of the run {run['name']} are in {report.directory}."
    parts = [
        f"{plural(report.downloaded, 'file')} ({size(report.bytes_downloaded)}) of the run "
        f"{run['name']} went to {report.directory}"
    ]
    if report.skipped:
        parts.append(f"{report.skipped:,} {'was' if report.skipped == 1 else 'were'} there already")
    if report.problems:
        parts.append(f"{len(report.problems):,} did not arrive")
    return "; ".join(parts) + "."
