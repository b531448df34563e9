"""The selected rows of a run, as a stream that is read from the dataset while it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from osmosis.dataset.formats import iter_selected
from osmosis.dataset.rows import ROW_COLUMNS, to_row_item
from osmosis.dataset.selection import parse_ranges

FIRST_CHUNK_BYTES = 4 * 1024
CHUNK_BYTES = 64 * 1024


def selected_rows(
    path: Path, extension: str, name: str, ranges: str, *, first: int = 0, step: int = 1
) -> Iterator[bytes]:
    """NDJSON of :class:`RowItem` in chunks, the first one soon. Blocking: runs in a thread.

    Of the selected rows come those with the indices ``first``, ``first + step``, … No more than
    one chunk is held: the next is read when the previous one was taken.
    """
    buffer = bytearray()
    wanted = FIRST_CHUNK_BYTES
    source_rows = parse_ranges(ranges)[first::step]
    rows = iter_selected(path, extension, source_rows, columns=ROW_COLUMNS, name=name)
    for number, (source_row, values) in enumerate(rows):
        item = to_row_item(values, first + number * step, source_row, name=name)
        buffer += orjson.dumps(item.model_dump(exclude_none=True))
        buffer += b"\n"
        if len(buffer) >= wanted:
            yield bytes(buffer)
            buffer.clear()
            wanted = CHUNK_BYTES
    if buffer:
        yield bytes(buffer)
