"""CSV, JSONL and Parquet files as streams of rows, one way to read all three."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from osmosis.dataset.csv_rows import CsvReader
from osmosis.dataset.errors import DatasetError
from osmosis.dataset.jsonl_rows import JsonlReader
from osmosis.wire.errors import did_you_mean

FORMATS = ("csv", "jsonl", "parquet")

__all__ = ["FORMATS", "DatasetError", "format_of", "iter_rows", "iter_selected", "open_reader"]


class RowReader(Protocol):
    """A dataset file, opened: its columns, then its rows and, in their place, its mistakes."""

    columns: list[str]

    def rows(self) -> Iterator[tuple[int, int | None, dict[str, Any] | DatasetError]]:
        """(index, line, values or the mistake) of every row, in order."""
        ...

    def selected(self, source_rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """(index, values) of the rows at these ascending indices, reading no more than needed."""
        ...


def format_of(path: str | Path) -> str:
    """The format that a file's extension names."""
    extension = Path(path).suffix.lower().removeprefix(".")
    if extension in FORMATS:
        return extension
    said = f"has the extension '.{extension}'" if extension else "has no extension"
    raise DatasetError(
        f"{said}; a dataset is a .csv, .jsonl or .parquet file.{did_you_mean(extension, FORMATS)}",
        file=Path(path).name,
        hint=_conversion(extension),
    )


def open_reader(
    path: str | Path, format: str, *, columns: Sequence[str] | None = None, name: str | None = None
) -> RowReader:
    """Open a file; ``columns`` limits what is decoded where the format allows, ``name`` is shown
    in messages instead of the path's own."""
    path = Path(path)
    name = name or path.name
    if format == "csv":
        return CsvReader(path, name)
    if format == "jsonl":
        return JsonlReader(path, name)
    if format == "parquet":
        # pyarrow takes 0.3 s to load and is an extra: only a Parquet file pays for it.
        from osmosis.dataset.parquet_rows import ParquetReader  # noqa: PLC0415

        return ParquetReader(path, name, columns)
    raise DatasetError(f"has the unknown format '{format}'; use {', '.join(FORMATS)}.", file=name)


def iter_rows(
    path: str | Path, format: str, *, columns: Sequence[str] | None = None, name: str | None = None
) -> Iterator[dict[str, Any]]:
    """Every row, streamed. Raises :class:`DatasetError` at the first row that cannot be read."""
    for _, _, values in open_reader(path, format, columns=columns, name=name).rows():
        if isinstance(values, DatasetError):
            raise values
        yield values


def iter_selected(
    path: str | Path,
    format: str,
    source_rows: Sequence[int],
    *,
    columns: Sequence[str] | None = None,
    name: str | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(source row, values) of the rows at ``source_rows`` (ascending, from 0), streamed.

    Text formats are read once and only up to the last wanted row; Parquet skips the row groups
    that hold none. A row that the file does not have raises :class:`DatasetError`.
    """
    shown = name or Path(path).name
    expected = 0
    for source_row, values in open_reader(path, format, columns=columns, name=name).selected(
        source_rows
    ):
        expected += 1
        yield source_row, values
    if expected < len(source_rows):
        raise DatasetError(
            f"has no row {source_rows[expected]}: the file ended before it.", file=shown
        )


def _conversion(extension: str) -> str | None:
    if extension in ("json", "ndjson"):
        return "Write one JSON object per line and name the file .jsonl."
    if extension in ("xlsx", "xls", "tsv", "txt"):
        return "Save it as comma-separated CSV in UTF-8."
    if extension in ("gz", "zip", "zst", "bz2"):
        return "Unpack it first."
    return None
