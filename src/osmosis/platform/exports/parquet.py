"""One row for each sample, as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from osmosis.platform.exports.stored import StoredRun, StoredSample
from osmosis.platform.exports.tables import COLUMNS, flat

ROW_GROUP = 1000
BATCH_BYTES = 32 << 20
"""Trajectories held at once while a row group is put together, about."""


def write_parquet(run: StoredRun, path: Path) -> None:
    """The columns, ``metrics`` as a map, and the trajectory as JSON text."""
    fields = [pa.field(name, getattr(pa, kind)()) for name, kind in COLUMNS.items()]
    fields.append(pa.field("metrics", pa.map_(pa.string(), pa.float64())))
    fields.append(pa.field("trajectory", pa.large_string()))
    about = {"osmosis": orjson.dumps({"run": run.document["eval_run"]}).decode()}
    schema = pa.schema(fields, metadata=about)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in _groups(map(_parquet_row, run.samples())):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def _parquet_row(sample: StoredSample) -> dict[str, Any]:
    document = sample.trajectory_json()
    return {
        **flat(sample),
        "metrics": list((sample.record.get("metrics") or {}).items()),
        "trajectory": None if document is None else document.decode(),
    }


def _groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows in groups that are bounded in number and in bytes."""
    while group := list(islice(rows, 1)):
        size = len(group[0]["trajectory"] or "")
        for row in rows:
            group.append(row)
            size += len(row["trajectory"] or "")
            if len(group) >= ROW_GROUP or size >= BATCH_BYTES:
                break
        yield group
