"""Parquet, in batches: memory stays bounded and unwanted row groups are never decoded."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from osmosis.dataset.errors import CellProblem, DatasetError

BATCH_ROWS = 1024


class ParquetReader:
    """A Parquet file; ``columns`` limits decoding to those of them that the file has."""

    def __init__(self, path: Path, name: str, columns: Sequence[str] | None = None) -> None:
        self._name = name
        try:
            self._file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise DatasetError(
                f"cannot be read as Parquet: {_first_line(error)}.",
                file=name,
                hint="Is the file complete, and really Parquet?",
            ) from None
        schema = self._file.schema_arrow
        self.columns: list[str] = list(schema.names)
        if len(set(self.columns)) != len(self.columns):
            raise DatasetError("names a column more than once.", file=name)
        self._columns = [c for c in self.columns if columns is None or c in columns]
        self._cleaned = [c for c in self._columns if not _is_plain(schema.field(c).type)]
        self.types: dict[str, pa.DataType] = {field.name: field.type for field in schema}

    def rows(self) -> Iterator[tuple[int, int | None, dict[str, Any] | DatasetError]]:
        index = 0
        for batch in self._batches(None):
            for values in self._values(batch, index):
                yield index, None, values
                index += 1

    def selected(self, source_rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        first = 0
        for group in range(self._file.num_row_groups):
            after = first + self._file.metadata.row_group(group).num_rows
            if bisect_left(source_rows, after) > bisect_left(source_rows, first):
                yield from self._selected_of_group(group, first, source_rows)
            first = after

    def _selected_of_group(
        self, group: int, first: int, source_rows: Sequence[int]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        for batch in self._batches([group]):
            after = first + batch.num_rows
            wanted = source_rows[bisect_left(source_rows, first) : bisect_left(source_rows, after)]
            if wanted:
                taken = batch.take(pa.array([row - first for row in wanted]))
                for source_row, values in zip(wanted, self._values(taken, None), strict=True):
                    if isinstance(values, DatasetError):
                        raise DatasetError(
                            values.problem,
                            file=self._name,
                            row=source_row,
                            column=values.column,
                        )
                    yield source_row, values
            first = after

    def _batches(self, groups: list[int] | None) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._file.iter_batches(
                batch_size=BATCH_ROWS, row_groups=groups, columns=self._columns
            )
        except (pa.ArrowException, OSError) as error:
            raise DatasetError(
                f"cannot be decoded: {_first_line(error)}.",
                file=self._name,
                hint="The file is damaged; write it again.",
            ) from None

    def _values(
        self, batch: pa.RecordBatch, index: int | None
    ) -> Iterator[dict[str, Any] | DatasetError]:
        try:
            rows: list[dict[str, Any]] = batch.to_pylist()
        except (pa.ArrowException, UnicodeDecodeError, ValueError, OverflowError):
            for offset in range(batch.num_rows):
                yield self._single(
                    batch.slice(offset, 1), None if index is None else index + offset
                )
            return
        for offset, row in enumerate(rows):
            try:
                for column in self._cleaned:
                    row[column] = _plain(row[column], column)
                yield row
            except CellProblem as problem:
                yield DatasetError.of(problem, file=self._name, row=(index or 0) + offset)

    def _single(self, row: pa.RecordBatch, index: int | None) -> dict[str, Any] | DatasetError:
        values: dict[str, Any] = {}
        for column in self._columns:
            try:
                values[column] = _plain(row.column(column).to_pylist()[0], column)
            except (pa.ArrowException, UnicodeDecodeError, ValueError, OverflowError) as error:
                return DatasetError(
                    f"holds a value that cannot be read ({_first_line(error)}).",
                    file=self._name,
                    row=index or 0,
                    column=column,
                )
            except CellProblem as problem:
                return DatasetError.of(problem, file=self._name, row=index or 0)
        return values


def _is_plain(kind: pa.DataType) -> bool:
    checks: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_integer,
        pa.types.is_boolean,
    )
    return any(check(kind) for check in checks)


def _plain(value: Any, column: str) -> Any:
    """The value in JSON's own types: NaN is missing, times are ISO text, bytes must be UTF-8."""
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {key: _plain(item, column) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, column) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CellProblem("holds bytes that are not UTF-8 text.", column=column) from None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    raise CellProblem(f"holds a {type(value).__name__}, which JSON cannot hold.", column=column)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return (text.splitlines()[0] if text else type(error).__name__).rstrip(".")
