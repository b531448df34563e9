"""The samples that a claimed run has stored, fetched one by one to be graded again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from osmosis.wire.errors import RunFailed
from osmosis.wire.samples import SampleRecord
from osmosis.worker.client import RunClient
from osmosis.worker.errors import LeaseLost, Refused
from osmosis.worker.patience import until_answered

T = TypeVar("T")


class RemoteSamples:
    """``StoredSamples`` over the runner API; waits while the platform is away."""

    def __init__(self, run: RunClient, *, on_lease_lost: Callable[[], None]) -> None:
        self._run = run
        self._on_lease_lost = on_lease_lost

    async def sample(self, row_index: int, run_index: int) -> SampleRecord:
        return await self._answer(lambda: self._run.stored(row_index, run_index))

    async def artifact(self, rollout_id: str, relative_path: str, target: Path) -> None:
        await self._answer(lambda: self._run.stored_artifact(rollout_id, relative_path, target))

    async def _answer(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await until_answered(call)
        except LeaseLost as error:
            self._on_lease_lost()
            raise RunFailed("worker_lost", "The run belongs to another worker now.") from error
        except Refused as error:
            text = f"A stored sample cannot be read: {error.message}"
            raise RunFailed("internal", text) from error
