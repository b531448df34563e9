"""Comparing runs: found by name, read off the event loop, remembered while nothing changes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from osmosis.platform.comparisons.columns import read_columns
from osmosis.platform.comparisons.groups import groups_of
from osmosis.platform.db.models import Run
from osmosis.platform.evals.numbers import Numbers
from osmosis.platform.evals.service import find_run
from osmosis.platform.platform import Platform
from osmosis.wire.errors import ValidationFailed

if TYPE_CHECKING:
    from osmosis.metrics.comparison import Comparison
    from osmosis.metrics.intervals import Estimate
    from osmosis.metrics.row_table import SampleColumns
    from osmosis.metrics.summary import Summary

MAX_RUNS = 8
MAX_SAMPLES = 5_000_000
"""All compared runs together; their columns take about 70 bytes each."""

MAX_SHOWN = 500
KNOWN_COMPARISONS = 64

Key = tuple[object, ...]


@dataclass(frozen=True)
class Compared:
    """The runs that were compared, the first with each of the others."""

    baseline: Run
    candidates: list[tuple[Run, Comparison | None]]
    summaries: dict[str, Summary]
    cluster_by: str | None


class Comparisons:
    """Compares runs, and knows the last comparisons as long as their runs stand still."""

    def __init__(self, platform: Platform, numbers: Numbers) -> None:
        self._platform = platform
        self._numbers = numbers
        self._known: OrderedDict[Key, list[Comparison | None]] = OrderedDict()

    async def compare(
        self,
        workspace_id: str,
        refs: Sequence[str],
        *,
        cluster_by: str | None = None,
        shown: int = 20,
    ) -> Compared:
        """Compare the first of the runs with each other one."""
        runs = await self._find(workspace_id, refs)
        key: Key = (cluster_by, shown, *((r.id, r.generation, r.sample_count) for r in runs))
        found = self._known.get(key)
        if found is None:
            found = await self._compare(runs, cluster_by, shown)
            self._known[key] = found
            if len(self._known) > KNOWN_COMPARISONS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        summaries: dict[str, Summary] = {}
        if None in found:
            summaries = {run.id: await self._numbers.summary(run) for run in runs}
        pairs = list(zip(runs[1:], found, strict=True))
        return Compared(runs[0], pairs, summaries, cluster_by)

    async def intervals(self, workspace_id: str, ref: str, cluster_by: str) -> dict[str, Estimate]:
        """The score and the pass rate of a run, with rows that share a column as clusters."""
        async with self._platform.db.read() as session:
            run, _ = await find_run(session, workspace_id, ref)
            groups = await groups_of(self._platform, session, run, cluster_by)
        samples = await self._columns(run)
        return await asyncio.to_thread(_grouped, samples, groups, run.pass_threshold)

    async def _find(self, workspace_id: str, refs: Sequence[str]) -> list[Run]:
        if not 2 <= len(refs) <= MAX_RUNS:
            raise ValidationFailed(
                f"A comparison takes 2 to {MAX_RUNS} runs, not {len(refs)}.", field="runs"
            )
        async with self._platform.db.read() as session:
            runs = [(await find_run(session, workspace_id, ref))[0] for ref in refs]
        seen: set[str] = set()
        for run in runs:
            if run.id in seen:
                raise ValidationFailed(
                    f"The run '{run.name}' is named twice; a run is compared with another one.",
                    field="runs",
                )
            seen.add(run.id)
            if not run.sample_count:
                raise ValidationFailed(
                    f"The run '{run.name}' has no samples yet; there is nothing to compare.",
                    field="runs",
                )
        samples = sum(run.sample_count for run in runs)
        if samples > MAX_SAMPLES:
            raise ValidationFailed(
                f"The runs have {samples:,} samples together; {MAX_SAMPLES:,} can be compared.",
                field="runs",
            )
        return runs

    async def _compare(
        self, runs: Sequence[Run], cluster_by: str | None, shown: int
    ) -> list[Comparison | None]:
        baseline, *candidates = runs
        groups: list[int] | None = None
        if cluster_by:
            async with self._platform.db.read() as session:
                groups = await groups_of(self._platform, session, baseline, cluster_by)
        before = await self._columns(baseline)
        found: list[Comparison | None] = []
        for run in candidates:
            if not _same_dataset(baseline, run):
                found.append(None)
                continue
            after = await self._columns(run)
            threshold = baseline.pass_threshold
            found.append(await asyncio.to_thread(_paired, before, after, threshold, groups, shown))
        return found

    async def _columns(self, run: Run) -> SampleColumns:
        return await self._platform.db.examine(lambda connection: read_columns(connection, run))


def _grouped(samples: SampleColumns, groups: list[int], threshold: float) -> dict[str, Estimate]:
    # See _paired().
    import numpy as np  # noqa: PLC0415

    from osmosis.metrics.grouped import grouped_estimates  # noqa: PLC0415

    return grouped_estimates(samples, np.array(groups), pass_threshold=threshold)


def _same_dataset(one: Run, other: Run) -> bool:
    """Whether a row number means the same row to both runs."""
    if one.dataset_sha256 and other.dataset_sha256:
        return one.dataset_sha256 == other.dataset_sha256
    return one.dataset_id is not None and one.dataset_id == other.dataset_id


def _paired(
    before: SampleColumns,
    after: SampleColumns,
    threshold: float,
    groups: list[int] | None,
    shown: int,
) -> Comparison:
    # numpy and scipy take a fifth of a second to load, which most servers' starts need not pay.
    import numpy as np  # noqa: PLC0415

    from osmosis.metrics.comparison import compare  # noqa: PLC0415

    of_rows = np.array(groups) if groups is not None else None
    return compare(before, after, pass_threshold=threshold, groups=of_rows, shown=shown)
