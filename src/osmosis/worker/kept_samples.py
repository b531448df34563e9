"""The calls of a replayed run, as the platform sends them: one line for each sample."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import orjson

from osmosis.evaluation.plan import KeptSample


def kept_samples(path: Path) -> Iterator[KeptSample]:
    """Read a downloaded file once; it is gone afterwards."""
    with path.open("rb") as file:
        for line in file:
            source_row, run_index, packed = orjson.loads(line)
            yield KeptSample(source_row, run_index, base64.b64decode(packed))
    path.unlink(missing_ok=True)
