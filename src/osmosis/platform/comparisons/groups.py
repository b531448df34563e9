"""Rows of a run's dataset that share a column's value: read in a child process."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.datasets.service import dataset_path
from osmosis.platform.db.models import Dataset, Run
from osmosis.platform.jobs.process import JobProcessError, run_process
from osmosis.platform.platform import Platform
from osmosis.wire.errors import Conflict, ValidationFailed, did_you_mean

MODULE = "osmosis.dataset.groups_process"
TIMEOUT_S = 120.0
OUTPUT_BYTES = 64 * 2**20
SHOWN_COLUMNS = 20


async def groups_of(platform: Platform, session: AsyncSession, run: Run, column: str) -> list[int]:
    """For each row of the run's dataset the number of its group."""
    dataset = await session.get(Dataset, run.dataset_id or "")
    path = dataset_path(platform.settings, dataset) if dataset is not None else None
    if dataset is None or path is None or not path.is_file():
        raise Conflict(
            f"The dataset '{run.dataset_name}' of the run '{run.name}' is not on this server, so "
            f"its column '{column}' cannot be read.",
            hint="Leave out --cluster-by: rows are then taken as independent of each other.",
        )
    request = {
        "path": str(path),
        "format": dataset.extension,
        "name": dataset.name,
        "column": column,
    }
    try:
        answer: dict[str, Any] = await run_process(
            MODULE, request, timeout_s=TIMEOUT_S, output_bytes=OUTPUT_BYTES
        )
    except JobProcessError as error:
        raise Conflict(
            f"The column '{column}' of the dataset '{dataset.name}' could not be read. {error}"
        ) from None
    if "columns" in answer:
        columns: list[str] = answer["columns"]
        listed, near = ", ".join(columns[:SHOWN_COLUMNS]), did_you_mean(column, columns)
        raise ValidationFailed(
            f"The dataset '{dataset.name}' has no column '{column}'.{near}",
            hint=f"Its columns: {listed}.",
            field="cluster_by",
        )
    return answer["groups"]
