"""Is this file a dataset? One pass over its rows, every mistake with its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from osmosis.dataset.column_names import misnamed_optional, missing_columns
from osmosis.dataset.errors import CellProblem, DatasetError
from osmosis.dataset.formats import RowReader, open_reader
from osmosis.dataset.metadata import MetadataShape
from osmosis.dataset.rows import METADATA, metadata_of, normalise

MAX_ERRORS = 5
MIN_ROWS = 4
MAX_FILE_BYTES = 5 * 1024**3
PREVIEW_ROWS = 20
PREVIEW_TEXT_CHARACTERS = 2_000
PREVIEW_ITEMS = 50
PREVIEW_DEPTH = 6


@dataclass
class Report:
    """What a validation found. ``row_count`` is of the rows seen before it gave up."""

    row_count: int = 0
    columns: list[str] = field(default_factory=list)
    mode: Literal["prompt", "metadata"] = "prompt"
    errors: list[DatasetError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    preview: list[dict[str, Any]] = field(default_factory=list)
    gave_up: bool = False

    @property
    def valid(self) -> bool:
        return not self.errors

    def error_lines(self) -> list[str]:
        """The mistakes for people, remedies included, and a last line when there may be more."""
        lines = [f"{e.message} {e.hint}" if e.hint else e.message for e in self.errors]
        if self.gave_up:
            lines.append(f"Stopped after the first {len(self.errors)} errors; there may be more.")
        return lines


def validate(
    path: str | Path, format: str, *, max_errors: int = MAX_ERRORS, name: str | None = None
) -> Report:
    """Read the whole file once. ``name`` is shown in messages instead of the path's own."""
    path = Path(path)
    name = name or path.name
    report = Report()
    try:
        _check_size(path, name)
        reader = open_reader(path, format, name=name)
        report.columns = list(reader.columns)
        report.mode = "metadata" if METADATA in reader.columns else "prompt"
        report.errors.extend(missing_columns(reader.columns, name))
        report.errors.extend(_metadata_column(reader, name))
        if report.errors:
            return report
        if warning := misnamed_optional(reader.columns):
            report.warnings.append(warning)
        _check_rows(reader, name, report, max_errors)
    except DatasetError as error:
        report.errors.append(error)
        return report
    if not report.errors and report.row_count < MIN_ROWS:
        report.errors.append(
            DatasetError(
                f"has {_counted(report.row_count)}; a dataset needs at least {MIN_ROWS}.", file=name
            )
        )
    return report


def _counted(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"


def _check_rows(reader: RowReader, name: str, report: Report, max_errors: int) -> None:
    shape = MetadataShape()
    for index, line, values in reader.rows():
        error = values if isinstance(values, DatasetError) else None
        if not isinstance(values, DatasetError):
            if len(report.preview) < PREVIEW_ROWS:
                report.preview.append({k: _shortened(v, 0) for k, v in values.items()})
            if problem := _row_problem(values, shape, index):
                error = DatasetError.of(problem, file=name, row=index, line=line)
        report.row_count = index + 1
        if error is not None:
            report.errors.append(error)
            if len(report.errors) >= max_errors:
                report.gave_up = True
                return


def _row_problem(values: dict[str, Any], shape: MetadataShape, row: int) -> CellProblem | None:
    try:
        if METADATA not in values:
            normalise(values)
            return None
        metadata = metadata_of(values[METADATA])
    except CellProblem as problem:
        return problem
    if metadata is None:
        return CellProblem(
            "is empty, but in a dataset with metadata every row needs a JSON object with at least "
            "one key.",
            column=METADATA,
        )
    return shape.check(metadata, row)


def _metadata_column(reader: RowReader, name: str) -> list[DatasetError]:
    """A Parquet metadata column must be a struct or text; other formats have no column types."""
    kind = getattr(reader, "types", {}).get(METADATA)
    if kind is None or str(kind).startswith(("struct<", "string", "large_string", "dictionary<")):
        return []
    return [
        DatasetError(
            f"has the type {kind}; it must be a struct or JSON text.", file=name, column=METADATA
        )
    ]


def _check_size(path: Path, name: str) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DatasetError(f"cannot be read: {error.strerror or error}.", file=name) from None
    if not path.is_file():
        raise DatasetError("is not a file.", file=name)
    if size == 0:
        raise DatasetError("is empty.", file=name)
    if size > MAX_FILE_BYTES:
        raise DatasetError(
            f"has {size / 1024**3:.1f} GiB; a dataset may have at most "
            f"{MAX_FILE_BYTES // 1024**3} GiB.",
            file=name,
        )


def _shortened(value: Any, depth: int) -> Any:
    """The value for a preview: long texts and long lists are cut and say so."""
    if isinstance(value, str):
        if len(value) <= PREVIEW_TEXT_CHARACTERS:
            return value
        return f"{value[:PREVIEW_TEXT_CHARACTERS]}… ({len(value):,} characters)"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return str(value) if abs(value) < 10**30 else "(a very large number)"
    if depth >= PREVIEW_DEPTH and isinstance(value, dict | list):
        return "…"
    if isinstance(value, dict):
        items = list(value.items())[:PREVIEW_ITEMS]
        return {key: _shortened(item, depth + 1) for key, item in items}
    if isinstance(value, list):
        return [_shortened(item, depth + 1) for item in value[:PREVIEW_ITEMS]]
    return value
