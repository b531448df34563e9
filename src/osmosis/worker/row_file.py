"""The rows of a run: downloaded once to disk, then read line by line as samples start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic import ValidationError

from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import RowItem


class RowFile:
    """A RowSource that waits for its download when it is first asked for a row."""

    def __init__(self, path: Path, download: asyncio.Task[None]) -> None:
        self._path = path
        self._download = download

    async def __call__(self) -> AsyncIterator[RowItem]:
        await asyncio.shield(self._download)
        with self._path.open("rb") as file:
            for number, line in enumerate(file):
                if line.isspace():
                    continue
                try:
                    yield RowItem.model_validate_json(line)
                except ValidationError as error:
                    raise RunFailed(
                        "dataset_unreadable",
                        f"Row {number} of the run's rows is not usable: "
                        f"{error.errors()[0]['msg']}.",
                    ) from error
