"""One sample, whole: its row, its record, and its trajectory paged by step."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import and_, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.models import Run, Sample
from osmosis.platform.evals.documents import sample_item
from osmosis.platform.evals.places import entry_of
from osmosis.platform.segments import Entry
from osmosis.platform.settings import Settings
from osmosis.wire.errors import NotFound

MAX_STEPS = 200
DEFAULT_STEPS = 50
SHOWN_CALLS = 200


class SampleKey(NamedTuple):
    """A sample's place in its run."""

    row_index: int
    run_index: int


async def find_sample(session: AsyncSession, run: Run, key: SampleKey) -> Sample:
    """The recorded sample at this place of the run."""
    query = select(Sample).where(
        Sample.run_id == run.id,
        Sample.row_index == key.row_index,
        Sample.run_index == key.run_index,
    )
    sample = (await session.execute(query)).scalar_one_or_none()
    if sample is None:
        planned = key.row_index < run.selected_rows and key.run_index < run.n
        why = (
            "it has not been recorded"
            if planned
            else f"the run has {run.selected_rows} rows of {run.n} samples each, from 0"
        )
        raise NotFound(
            f"The run '{run.name}' has no sample of row {key.row_index}, run {key.run_index}: "
            f"{why}."
        )
    return sample


async def neighbours(
    session: AsyncSession, run_id: str, key: SampleKey
) -> tuple[SampleKey | None, SampleKey | None]:
    """The recorded samples before and after this one, by row and run."""
    row, index = Sample.row_index, Sample.run_index
    mine = select(row, index).where(Sample.run_id == run_id)
    earlier = mine.where(
        row <= key.row_index,
        or_(row < key.row_index, and_(row == key.row_index, index < key.run_index)),
    ).order_by(row.desc(), index.desc())
    later = mine.where(
        row >= key.row_index,
        or_(row > key.row_index, and_(row == key.row_index, index > key.run_index)),
    ).order_by(row, index)
    found = [(await session.execute(query.limit(1))).first() for query in (earlier, later)]
    before, after = (SampleKey(*place) if place else None for place in found)
    return before, after


@dataclass(frozen=True)
class SampleView:
    """A sample with one page of its steps and what belongs beside them."""

    sample: Sample
    document: dict[str, Any] | None
    steps: list[dict[str, Any]]
    step_count: int
    start: int
    calls: list[dict[str, Any]]
    call_count: int
    output: str | None

    @property
    def next_start(self) -> int | None:
        reached = self.start + len(self.steps)
        return reached if self.steps and reached < self.step_count else None

    def body(self) -> dict[str, Any]:
        """The sample on the wire: its row, its record, one page of steps."""
        record = {key: value for key, value in self.sample.record.items() if key != "calls"}
        return {
            **record,
            **sample_item(self.sample),
            "trajectory": self.document,
            "steps": self.steps,
            "from": self.start,
            "step_count": self.step_count,
            "next_from": self.next_start,
            "calls": self.calls,
            "call_count": self.call_count,
            **({"output": self.output} if self.output is not None else {}),
        }


async def view_sample(
    settings: Settings, sample: Sample, *, start: int = 0, count: int = DEFAULT_STEPS
) -> SampleView:
    """Read one page of a sample's trajectory from the run's segments."""
    entry = entry_of(settings, sample)
    if entry is None:
        return SampleView(sample, None, [], 0, start, [], 0, None)
    return await asyncio.to_thread(_read, entry, sample, start, min(count, MAX_STEPS))


def _read(entry: Entry, sample: Sample, start: int, count: int) -> SampleView:
    return SampleView(
        sample=sample,
        document=entry.document,
        steps=entry.read_steps(start, count),
        step_count=entry.count("steps"),
        start=start,
        calls=entry.read_items("calls", 0, SHOWN_CALLS),
        call_count=entry.count("calls"),
        output=entry.read_output(),
    )
