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

from osmosis.metrics.summary import DEFINITION_VERSION, Summary, summary_of
from osmosis.metrics.tally import SampleOutcome
from osmosis.platform.db.models import RunTally, Sample
from osmosis.platform.evals.median import keep_middle, median_reward
from osmosis.platform.evals.run_count import Row, RunCount

ROWS_PER_QUERY = 500
SAMPLES_AT_ONCE = 2000
STATE_LAYOUT = 1
"""How a state is written; it grows when that changes."""

VERSION = 100 * STATE_LAYOUT + DEFINITION_VERSION


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
    RunTally.run_id == bindparam("of_run"), RunTally.version == VERSION
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
    count = RunCount.empty(pass_threshold, n) if first else load_tally(connection, run_id)
    if count is None:
        return
    add_samples(connection, run_id, count, samples)
    if first:
        drop_tally(connection, run_id)
        store_tally(connection, run_id, count)
    else:
        connection.execute(_SAVE, {"of_run": run_id, "new": orjson.dumps(count.dump())})


def add_samples(
    connection: Connection, run_id: str, count: RunCount, samples: Iterable[Counted]
) -> None:
    """Add samples that are in the database by now, and move their rows and the middle."""
    added: set[tuple[int, int]] = set()
    for sample in samples:
        count.add(sample.outcome())
        added.add((sample.row_index, sample.run_index))
    if count.n >= 2:
        _move_rows(connection, run_id, count, added)
    keep_middle(connection, run_id, count)


def load_tally(connection: Connection, run_id: str) -> RunCount | None:
    """The run's tally; None when there is none of the present definitions."""
    state = connection.execute(_STATE, {"of_run": run_id}).scalar()
    return RunCount.load(orjson.loads(state)) if state is not None else None


def has_tally(connection: Connection, run_id: str) -> bool:
    """Whether the run has a tally of the present definitions."""
    query = select(RunTally.run_id).where(RunTally.run_id == run_id, RunTally.version == VERSION)
    return connection.execute(query).first() is not None


def store_tally(connection: Connection, run_id: str, count: RunCount) -> None:
    """Keep the tally of a run that has none."""
    state = orjson.dumps(count.dump())
    connection.execute(insert(RunTally), {"run_id": run_id, "version": VERSION, "state": state})


def keep_only_graded(connection: Connection, run_id: str) -> None:
    """Count only what a retry keeps; the other samples are no longer in the database."""
    count = load_tally(connection, run_id)
    if count is not None:
        count.forget_others()
        keep_middle(connection, run_id, count)
        connection.execute(_SAVE, {"of_run": run_id, "new": orjson.dumps(count.dump())})


def drop_tally(connection: Connection, run_id: str) -> None:
    """Forget the run's tally, because samples were replaced."""
    connection.execute(delete(RunTally).where(RunTally.run_id == run_id))


def count_anew(
    connection: Connection, run_id: str, *, pass_threshold: float, n: int
) -> tuple[RunCount, int]:
    """The tally of everything recorded for a run, and the id of the newest sample in it."""
    count, last_id = RunCount.empty(pass_threshold, n), 0
    for _, runs in groupby(_by_key(connection, run_id), key=lambda found: found[1].row_index):
        row = Row()
        for sample_id, sample in runs:
            last_id = max(last_id, sample_id)
            count.add(sample.outcome())
            row = row.plus(sample.status, sample.error_type, sample.reward, pass_threshold)
        if n >= 2:
            count.move_row(Row(), row)
    return count, last_id


def samples_after(connection: Connection, run_id: str, last_id: int) -> list[Counted]:
    """The run's samples that were inserted after this one."""
    query = select(*_COLUMNS).where(Sample.run_id == run_id, Sample.id > last_id)
    return [Counted(*found) for found in connection.execute(query)]


def summary_in(connection: Connection, run_id: str, count: RunCount) -> Summary:
    """The summary of a tally, with the exact median also where the tally has it no more."""
    whole = count.whole()
    exact = whole.rewards.exact
    return summary_of(whole, median=None if exact else median_reward(connection, run_id, count))


def _move_rows(
    connection: Connection, run_id: str, count: RunCount, added: set[tuple[int, int]]
) -> None:
    touched = sorted({row for row, _ in added})
    for start in range(0, len(touched), ROWS_PER_QUERY):
        rows = touched[start : start + ROWS_PER_QUERY]
        found = connection.execute(_ROWS, {"of_run": run_id, "of_rows": rows})
        for _, runs in groupby(found, key=lambda sample: sample.row_index):
            before = after = Row()
            for row, run, status, error_type, reward in runs:
                after = after.plus(status, error_type, reward, count.pass_threshold)
                if (row, run) not in added:
                    before = before.plus(status, error_type, reward, count.pass_threshold)
            count.move_row(before, after)


def _by_key(connection: Connection, run_id: str) -> Iterator[tuple[int, Counted]]:
    query = (
        select(Sample.id, *_COLUMNS)
        .where(Sample.run_id == run_id)
        .order_by(Sample.row_index, Sample.run_index)
        .execution_options(yield_per=SAMPLES_AT_ONCE)
    )
    for sample_id, *columns in connection.execute(query):
        yield sample_id, Counted(*columns)
