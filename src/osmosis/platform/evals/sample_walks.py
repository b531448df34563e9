"""How a page of a run's samples is read by short walks along indexes, however big the run.

A filter splits the run into lanes. Within a lane the status, whether it passed and the kind of
error are fixed, so its samples stand side by side in an index, in the order of the page, and the
first of them are read without a look at any other. The page is the merge of its lanes. A lane is
walked by one query after the other, each going on where the one before ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from osmosis.platform.db.models import Run, Sample

MAX_PICKED = 2000
"""So many samples of picked rows may be sorted, or looked up by the numbers of their rows."""

KINDS: tuple[tuple[str, bool | None], ...] = (
    ("success", True),
    ("success", False),
    ("failed", True),
    ("failed", False),
    ("skipped", None),
)
"""Every status with whether such a sample may have passed."""

Condition = ColumnElement[bool]
Query = Select[Sample]
Lanes = list[Iterator[Query]]


class Place(NamedTuple):
    """Where a page ends: the order's own value first, then what makes it unique."""

    reward: float
    row_index: int
    run_index: int


class Filters(NamedTuple):
    """Which samples are wanted; None lets every one through. ``rows`` ascend and do not touch."""

    status: str | None
    passed: bool | None
    error: str | None
    rows: list[range] | None


def by_row(sample: Sample) -> tuple[int, int]:
    return sample.row_index, sample.run_index


def by_reward(sample: Sample) -> tuple[float, int, int]:
    return sample.reward or 0.0, sample.row_index, sample.run_index


def by_rows(run: Run, given: Filters, after: Place | None) -> Lanes:
    """Lanes in the order of rows."""
    if given.status is None and given.passed is None and given.error is None:
        return [_along_rows(run, _of(run, given), given.rows, after)]
    index = "ix_samples_by_status" if given.error is None else "ix_samples_by_error"
    every = _of(run, given, index)
    return [
        _along_rows(
            run, every.where(Sample.status == status, Sample.passed.is_(passed)), given.rows, after
        )
        for status, passed in KINDS
        if given.status in (None, status) and given.passed in (None, passed)
    ]


def by_rewards(run: Run, given: Filters, after: Place | None) -> Lanes:
    """Lanes of graded samples, the lowest reward first."""
    if given.rows is not None and sum(map(len, given.rows)) * run.n <= MAX_PICKED:
        return [iter([_sorted(run, given, after)])]
    rows = [or_(*map(_within, given.rows))] if given.rows else []
    if given.status is None and given.error is None and not run.skipped_count:
        every = _of(run, given, "ix_samples_by_reward").where(Sample.status != "skipped", *rows)
        return [_along_rewards(run, every, given, after)]
    index = "ix_samples_graded" if given.error is None else "ix_samples_graded_by_error"
    every = _of(run, given, index).where(*rows)
    return [
        _along_rewards(run, every.where(Sample.status == status), given, after)
        for status in ("success", "failed")
        if given.status in (None, status)
    ]


def _of(run: Run, given: Filters, index: str | None = None) -> Query:
    query = select(Sample).where(Sample.run_id == run.id)
    if index is not None:
        # SQLite has no statistics to choose by, and takes the unique index for a better one.
        query = query.with_hint(Sample, f"INDEXED BY {index}", "sqlite")
    return query if given.error is None else query.where(Sample.error_type == given.error)


def _along_rows(
    run: Run, lane: Query, rows: list[range] | None, after: Place | None
) -> Iterator[Query]:
    query = lane.order_by(Sample.row_index, Sample.run_index)
    first = 0
    if after is not None:
        query, first = query.where(_later(after)), after.row_index
    if rows is None:
        yield query if after is None else query.where(Sample.row_index >= first)
        return
    left = [range(max(part.start, first), part.stop) for part in rows if part.stop > first]
    for part in _packed(left, max(1, MAX_PICKED // run.n)):
        picked = Sample.row_index.in_(part) if isinstance(part, list) else _within(part)
        yield query.where(picked)


def _packed(rows: Sequence[range], most: int) -> Iterator[range | list[int]]:
    """Ranges as they are, but neighbours of few rows together by their numbers."""
    pack: list[int] = []
    for part in rows:
        if pack and len(pack) + len(part) > most:
            yield pack
            pack = []
        if len(part) > most or len(rows) == 1:
            yield part
        else:
            pack += part
    if pack:
        yield pack


def _along_rewards(run: Run, lane: Query, given: Filters, after: Place | None) -> Iterator[Query]:
    ordered = lane.order_by(Sample.reward, Sample.row_index, Sample.run_index)
    at_least = run.pass_threshold if given.passed else None
    if given.passed is False:
        ordered = ordered.where(Sample.reward < run.pass_threshold)
    if after is None or (at_least is not None and after.reward < at_least):
        graded = Sample.reward.is_not(None) if at_least is None else Sample.reward >= at_least
        yield ordered.where(graded)
        return
    # Two walks, for very many samples may have the one reward.
    same = lane.where(Sample.reward == after.reward, Sample.row_index >= after.row_index)
    if given.passed is not False or after.reward < run.pass_threshold:
        yield same.where(_later(after)).order_by(Sample.row_index, Sample.run_index)
    yield ordered.where(Sample.reward > after.reward)


def _sorted(run: Run, given: Filters, after: Place | None) -> Query:
    """The graded samples of a few rows, found by their rows and sorted."""
    picked = [row for part in given.rows or () for row in part]
    reward, status = _opaque(Sample.reward), _opaque(Sample.status)
    query = select(Sample).where(Sample.run_id == run.id, Sample.row_index.in_(picked))
    query = query.where(reward.is_not(None), status != "skipped")
    if given.status is not None:
        query = query.where(status == given.status)
    if given.error is not None:
        query = query.where(_opaque(Sample.error_type) == given.error)
    if given.passed is not None:
        query = query.where(_opaque(Sample.passed) == given.passed)
    if after is not None:
        query = query.where(or_(reward > after.reward, and_(reward == after.reward, _later(after))))
    return query.order_by(reward, Sample.row_index, Sample.run_index)


def _later(after: Place) -> Condition:
    # Written out, for SQLite uses no index for a comparison of row values behind an equality.
    return or_(
        Sample.row_index > after.row_index,
        and_(Sample.row_index == after.row_index, Sample.run_index > after.run_index),
    )


def _within(rows: range) -> Condition:
    return Sample.row_index.between(rows.start, rows.stop - 1)


def _opaque(column: Any) -> Any:
    """The column as an expression that no index has."""
    return func.coalesce(column, column)
