"""The dataset file of a local run, and the rows of it that run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from osmosis.dataset.errors import DatasetError
from osmosis.dataset.formats import FORMATS, format_of, iter_selected, open_reader
from osmosis.dataset.rows import ROW_COLUMNS, to_row_item
from osmosis.dataset.selection import parse_ranges, sample_size
from osmosis.evaluation.local.inputs import file_sha256
from osmosis.wire.errors import NotFound, ValidationFailed
from osmosis.wire.runner import RowItem


@dataclass(frozen=True)
class LocalDataset:
    """A dataset file as it is now."""

    path: Path
    format: str
    sha256: str
    total_rows: int

    @property
    def submitted_rows(self) -> int:
        """How many rows a submitted run without a limit would draw."""
        return sample_size(self.total_rows)


def open_dataset(path: Path) -> LocalDataset:
    """Count and hash the file; the first row that cannot be read is an error."""
    if not path.is_file():
        raise NotFound(f"There is no dataset file {path}.", hint="Check --dataset-file.")
    file_format = format_of(path)
    rows = 0
    for _, _, values in open_reader(path, file_format, columns=ROW_COLUMNS).rows():
        if isinstance(values, DatasetError):
            raise values
        rows += 1
    if not rows:
        raise ValidationFailed(f"{path} has no rows to evaluate.")
    return LocalDataset(path, file_format, file_sha256(path), rows)


def find_dataset_file(root: Path, name: str) -> Path | None:
    """The workspace's own file of the dataset ``name``, in ``data/``."""
    for extension in FORMATS:
        path = root / "data" / f"{name}.{extension}"
        if path.is_file():
            return path
    return None


def select_rows(total_rows: int, rows: str | None, limit: int | None) -> Sequence[int]:
    """``--rows``, else the first ``limit``, else all."""
    if rows is not None:
        return parse_ranges(rows, total_rows)
    return range(min(limit, total_rows) if limit else total_rows)


class DatasetRows:
    """A RowSource over the file itself."""

    def __init__(self, dataset: LocalDataset, source_rows: Sequence[int]) -> None:
        self._dataset = dataset
        self._source_rows = source_rows

    async def __call__(self) -> AsyncIterator[RowItem]:
        dataset = self._dataset
        # A row is read when a sample needs it; that takes far less than driving the sample.
        found = iter_selected(dataset.path, dataset.format, self._source_rows, columns=ROW_COLUMNS)
        for row_index, (source_row, values) in enumerate(found):
            yield to_row_item(values, row_index, source_row, name=dataset.path.name)
