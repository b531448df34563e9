"""The exact median of a run's rewards, from the index of rewards, a few steps from a known place.

A walk from the smallest reward takes as long as half of the samples; so a place near the median is
kept beside the tally, and moved along as records arrive.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from osmosis.metrics.middle import Middle
from osmosis.metrics.summary import median_of
from osmosis.platform.db.models import Sample
from osmosis.platform.evals.run_count import RunCount

MAX_STEPS = 1000
"""How far the kept place may come to lie from the median before it is moved."""


def median_reward(connection: Connection, run_id: str, count: RunCount) -> float | None:
    """The median of the graded rewards; None without any."""
    if not count.graded:
        return None
    rewards = _Rewards(connection, run_id, count.skipped)
    ranks = sorted({(count.graded - 1) // 2, count.graded // 2})
    return median_of([rewards.at(rank, count.middle) for rank in ranks])


def keep_middle(connection: Connection, run_id: str, count: RunCount) -> None:
    """Have a place near the median once one is needed; the samples are in the database by now."""
    if not count.needs_middle or not count.graded:
        return
    rank, middle = (count.graded - 1) // 2, count.middle
    if middle is None or abs(middle.steps_to(rank)) > MAX_STEPS:
        rewards = _Rewards(connection, run_id, count.skipped)
        count.middle = rewards.place_of(rewards.at(rank, middle), middle)


class _Rewards:
    """The graded rewards of a run in ascending order."""

    def __init__(self, connection: Connection, run_id: str, skipped: bool) -> None:
        self._connection = connection
        self._graded = [Sample.run_id == run_id, Sample.reward.is_not(None)]
        if skipped:
            self._graded.append(Sample.status != "skipped")

    def at(self, rank: int, near: Middle | None) -> float:
        """The reward at a rank, from 0; ``near`` is where the search begins."""
        query, skip = select(Sample.reward).where(*self._graded).order_by(Sample.reward), rank
        if near is not None:
            steps = near.steps_to(rank)
            if steps == 0:
                return near.value
            skip = abs(steps) - 1
            if steps > 0:
                query = query.where(Sample.reward > near.value)
            else:
                query = query.where(Sample.reward < near.value).order_by(None)
                query = query.order_by(Sample.reward.desc())
        return float(self._one(query.offset(skip).limit(1))) + 0.0  # minus zero is zero

    def place_of(self, value: float, near: Middle | None) -> Middle:
        """The place of a reward; ``near`` is where the count begins."""
        equal = self._number(Sample.reward == value)
        if near is None:
            below = self._number(Sample.reward < value)
        elif value > near.value:
            below = near.upto + self._number((Sample.reward > near.value) & (Sample.reward < value))
        else:
            below = near.below - self._number(
                (Sample.reward >= value) & (Sample.reward < near.value)
            )
        return Middle(value, below, below + equal)

    def _number(self, condition: Any) -> int:
        return self._one(select(func.count()).where(*self._graded, condition))

    def _one(self, query: Any) -> Any:
        return self._connection.execute(query).scalar_one()
