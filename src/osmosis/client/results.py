"""The samples of a run: an iterator that reads page by page, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from osmosis.client.api import Api
from osmosis.wire.errors import OsmosisError

if TYPE_CHECKING:
    import pandas
    import pyarrow

SAMPLES_PER_CALL = 500


@dataclass(frozen=True)
class Sample:
    """One sample: one row of the dataset, executed once."""

    row_index: int
    """Counts within the selected rows."""
    run_index: int
    """0 to n - 1."""
    source_row: int | None
    """The row's place in the dataset."""
    status: str
    """``success``, ``failed`` or ``skipped``."""
    reward: float | None
    error_type: str | None
    error_message: str | None
    tokens: int | None
    cost_usd: float | None
    """None when nobody knows; never zero for that."""
    duration_ms: float | None
    rollout_id: str
    has_trajectory: bool


class Results:
    """The samples of a run, ordered by row and run unless a filter says otherwise.

    Each iteration reads them anew from the platform, a page at a time, so that a big run needs no
    memory; of a run that goes on, it gives the samples that are there.
    """

    def __init__(self, api: Api, run_id: str, **filters: Any) -> None:
        self._api, self._run_id, self._filters = api, run_id, filters

    def __iter__(self) -> Iterator[Sample]:
        cursor: str | None = None
        while True:
            page = self._api.eval_samples(
                self._run_id, limit=SAMPLES_PER_CALL, cursor=cursor, **self._filters
            )
            for item in page.get("samples") or []:
                yield _sample(item)
            cursor = page.get("next_cursor")
            if not cursor:
                return

    def to_arrow(self) -> pyarrow.Table:
        """The samples as a table of Arrow, one column for each attribute of :class:`Sample`."""
        arrow = _pyarrow()
        columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        for sample in self:
            for name, values in columns.items():
                values.append(getattr(sample, name))
        arrays = [
            arrow.array(values, getattr(arrow, _COLUMNS[name])())
            for name, values in columns.items()
        ]
        return arrow.Table.from_arrays(arrays, names=list(columns))

    def to_pandas(self) -> pandas.DataFrame:
        """The samples as a DataFrame, with the columns of :meth:`to_arrow`."""
        table = self.to_arrow()
        try:
            return table.to_pandas()
        except ImportError:
            raise OsmosisError(
                "A DataFrame needs pandas.", hint="Install it with `pip install pandas`."
            ) from None


_COLUMNS = {
    "row_index": "int64",
    "run_index": "int64",
    "source_row": "int64",
    "status": "string",
    "reward": "float64",
    "error_type": "string",
    "error_message": "string",
    "tokens": "int64",
    "cost_usd": "float64",
    "duration_ms": "float64",
    "rollout_id": "string",
    "has_trajectory": "bool_",
}


def _sample(item: Mapping[str, Any]) -> Sample:
    """A sample from the wire, where absent values are left out."""
    known = {field.name: item.get(field.name) for field in fields(Sample)}
    return Sample(**{**known, "has_trajectory": bool(item.get("has_trajectory"))})  # pyright: ignore[reportArgumentType]


def _pyarrow() -> Any:
    try:
        import pyarrow  # noqa: PLC0415 - heavy, and only tables need it
    except ImportError:
        raise OsmosisError(
            "A table needs pyarrow.", hint="Install it with `pip install pyarrow`."
        ) from None
    return pyarrow
