"""The tally of a run in the database: kept as records arrive, counted anew when it must be.

Everything here runs inside a transaction of the caller, in one of the database's threads. What a
tally takes in comes from the stored row of a sample, so that one kept as records arrive and one
counted anew from the rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from osmosis.metrics.summary import DEFINITION_VERSION, Summary, median_of, summary_of
from osmosis.metrics.tally import RowTotals, SampleOutcome, Tally
from osmosis.platform.db.models import RunTally, Sample

ROWS_PER_QUERY = 500
SAMPLES_AT_ONCE = 2000


class Counted(NamedTuple):
    """The columns of a sample that a tally takes in."""

    row_index: int
    run_index: int
    status: str
    reward: float | None
    error_type: str | None
    tokens: int | None
    cost_usd: float | None
    duration_ms: float
    record: Mapping[str, Any]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Counted:
        """From a row that is about to be inserted."""
        return cls(*(row[name] for name in cls._fields))

    def outcome(self) -> SampleOutcome:
        record = self.record
        judge_cost: float | None = record.get("judge_cost_usd")
        known = not record.get("cost_unknown")
        return SampleOutcome(
            self.row_index,
            self.run_index,
            self.status,
            self.reward,
            self.tokens,
            self.error_type,
            self.duration_ms,
            record.get("queue_ms"),
            (self.cost_usd or 0.0) + (judge_cost or 0.0) if known else None,
            record.get("latencies_ms") or (),
            record.get("metrics"),
        )


_COLUMNS = tuple(getattr(Sample, name) for name in Counted._fields)
_STATE = select(RunTally.state).where(
    RunTally.run_id == bindparam("of_run"), RunTally.version == DEFINITION_VERSION
)
_SAVE = (
    update(RunTally).where(RunTally.run_id == bindparam("of_run")).values(state=bindparam("new"))
)
_ROWS = (
    select(Sample.row_index, Sample.run_index, Sample.status, Sample.error_type, Sample.reward)
    .where(
        Sample.run_id == bindparam("of_run"),
        Sample.row_index.in_(bindparam("of_rows", expanding=True)),
    )
    .order_by(Sample.row_index)
)


def count_in(
    connection: Connection,
    run_id: str,
    samples: Sequence[Counted],
    *,
    first: bool,
    pass_threshold: float,
    n: int,
) -> None:
    """Take samples that were just inserted into the run's tally.

    ``first``: the run had none before. A run with samples and no tally stays without: whoever asks
    for its numbers counts it anew.
    """
    tally = Tally(pass_threshold, n) if first else load_tally(connection, run_id)
    if tally is None:
        return
    add_samples(connection, run_id, tally, samples)
    if first:
        drop_tally(connection, run_id)
        store_tally(connection, run_id, tally)
    else:
        connection.execute(_SAVE, {"of_run": run_id, "new": orjson.dumps(tally.dump())})


def add_samples(
    connection: Connection, run_id: str, tally: Tally, samples: Iterable[Counted]
) -> None:
    """Add samples that are in the database by now, and move their rows."""
    added: set[tuple[int, int]] = set()
    for sample in samples:
        tally.add(sample.outcome())
        added.add((sample.row_index, sample.run_index))
    if tally.n < 2:
        return
    touched = sorted({row for row, _ in added})
    for start in range(0, len(touched), ROWS_PER_QUERY):
        rows = touched[start : start + ROWS_PER_QUERY]
        found = connection.execute(_ROWS, {"of_run": run_id, "of_rows": rows})
        for _, runs in groupby(found, key=lambda sample: sample.row_index):
            before = after = RowTotals()
            for row, run, status, error_type, reward in runs:
                after = after.plus(status, error_type, reward, tally.pass_threshold)
                if (row, run) not in added:
                    before = before.plus(status, error_type, reward, tally.pass_threshold)
            tally.take_row(before)
            tally.put_row(after)


def load_tally(connection: Connection, run_id: str) -> Tally | None:
    """The run's tally; None when there is none of the present definitions."""
    state = connection.execute(_STATE, {"of_run": run_id}).scalar()
    return Tally.load(orjson.loads(state)) if state is not None else None


def has_tally(connection: Connection, run_id: str) -> bool:
    """Whether the run has a tally of the present definitions."""
    query = select(RunTally.run_id).where(
        RunTally.run_id == run_id, RunTally.version == DEFINITION_VERSION
    )
    return connection.execute(query).first() is not None


def store_tally(connection: Connection, run_id: str, tally: Tally) -> None:
    """Keep the tally of a run that has none."""
    state = orjson.dumps(tally.dump())
    connection.execute(
        insert(RunTally), {"run_id": run_id, "version": DEFINITION_VERSION, "state": state}
    )


def drop_tally(connection: Connection, run_id: str) -> None:
    """Forget the run's tally, because samples were taken out."""
    connection.execute(delete(RunTally).where(RunTally.run_id == run_id))


def count_anew(
    connection: Connection, run_id: str, *, pass_threshold: float, n: int
) -> tuple[Tally, int]:
    """The tally of everything recorded for a run, and the id of the newest sample in it."""
    tally, last_id = Tally(pass_threshold, n), 0
    for _, runs in groupby(_by_key(connection, run_id), key=lambda found: found[1].row_index):
        row = RowTotals()
        for sample_id, sample in runs:
            last_id = max(last_id, sample_id)
            tally.add(sample.outcome())
            row = row.plus(sample.status, sample.error_type, sample.reward, pass_threshold)
        if n >= 2:
            tally.put_row(row)
    return tally, last_id


def samples_after(connection: Connection, run_id: str, last_id: int) -> list[Counted]:
    """The run's samples that were inserted after this one."""
    query = select(*_COLUMNS).where(Sample.run_id == run_id, Sample.id > last_id)
    return [Counted(*found) for found in connection.execute(query)]


def summary_in(connection: Connection, run_id: str, tally: Tally) -> Summary:
    """The summary of a tally, with the exact median also where the tally has it no more."""
    median = None
    if not tally.rewards.exact:
        skipped = any(c.status == "skipped" and n.samples for c, n in tally.cells.items())
        median = _median(connection, run_id, tally.rewards.count, skipped)
    return summary_of(tally, median=median)


def _by_key(connection: Connection, run_id: str) -> Iterator[tuple[int, Counted]]:
    query = (
        select(Sample.id, *_COLUMNS)
        .where(Sample.run_id == run_id)
        .order_by(Sample.row_index, Sample.run_index)
        .execution_options(yield_per=SAMPLES_AT_ONCE)
    )
    for sample_id, *columns in connection.execute(query):
        yield sample_id, Counted(*columns)


def _median(connection: Connection, run_id: str, count: int, skipped: bool) -> float | None:
    """The median of ``count`` graded rewards, along the index of rewards."""
    graded = [Sample.run_id == run_id, Sample.reward.is_not(None)]
    if skipped:
        graded.append(Sample.status != "skipped")
    middle = (
        select(Sample.reward)
        .where(*graded)
        .order_by(Sample.reward)
        .offset((count - 1) // 2)
        .limit(1 if count % 2 else 2)
    )
    found = [float(reward) for (reward,) in connection.execute(middle) if reward is not None]
    return median_of(found) if found else None
