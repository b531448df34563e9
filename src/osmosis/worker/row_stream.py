"""The rows of a run, read from the platform as samples start and no faster.

What was sent ahead waits in the socket's bounded buffers, so a million rows cost no memory and the
first one comes at once. A stream that breaks off goes on at the next row.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from pydantic import ValidationError

from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import RowItem
from osmosis.worker.client import RunClient
from osmosis.worker.errors import Broken, Refused, Unavailable
from osmosis.worker.patience import RETRY_FIRST_S, RETRY_MOST_S

MAX_BREAKS = 5
"""Streams in a row that break off before they bring one more row: it is broken at its source."""


class RowStream:
    """A RowSource of the rows ``first``, ``first + step``, … To be opened, then iterated once."""

    def __init__(self, run: RunClient, *, first: int = 0, step: int = 1) -> None:
        self._run = run
        self._next = first
        self._step = step
        self._rows = self._read()
        self._opening: asyncio.Task[RowItem] | None = None

    def open(self) -> None:
        """Ask for the first row now, so that it is there when somebody wants it."""
        self._opening = asyncio.create_task(_first(self._rows))
        # Its error is told to whoever asks for the row; nobody may be there to ask.
        self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def __call__(self) -> AsyncIterator[RowItem]:
        try:
            if self._opening is not None:
                try:
                    yield await asyncio.shield(self._opening)
                except _NoRows:
                    return
            async for row in self._rows:
                yield row
        finally:
            await self.close()

    async def close(self) -> None:
        """End the connection."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        await self._rows.aclose()

    async def _read(self) -> AsyncGenerator[RowItem]:
        breaks, delay_s = 0, RETRY_FIRST_S
        while True:
            try:
                async for line in self._run.rows(self._next, self._step):
                    row = self._parsed(line)
                    self._next = row.row_index + self._step
                    breaks, delay_s = 0, RETRY_FIRST_S
                    yield row
                return
            except Refused as error:
                raise RunFailed("dataset_unreadable", error.message, hint=error.hint) from error
            except Unavailable as error:
                breaks += isinstance(error, Broken)
                if breaks >= MAX_BREAKS:
                    raise RunFailed(
                        "dataset_unreadable", f"The rows of the run could not be fetched: {error}"
                    ) from error
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, RETRY_MOST_S)

    def _parsed(self, line: bytes) -> RowItem:
        try:
            return RowItem.model_validate_json(line)
        except ValidationError as error:
            raise RunFailed(
                "dataset_unreadable",
                f"Row {self._next} of the run's rows is not usable: {error.errors()[0]['msg']}.",
            ) from error


class _NoRows(Exception):
    """The stream ended before its first row."""


async def _first(rows: AsyncGenerator[RowItem]) -> RowItem:
    try:
        return await anext(rows)
    except StopAsyncIteration:
        raise _NoRows from None  # a task cannot end with StopAsyncIteration's kin
