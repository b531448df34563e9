"""A run's samples as columns, read in one go, off the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, null, select

from osmosis.metrics.tally import is_broken
from osmosis.platform.db.models import Run, Sample

if TYPE_CHECKING:
    from osmosis.metrics.row_table import SampleColumns

SAMPLES_AT_ONCE = 20_000

_PLAIN = (
    Sample.source_row,
    Sample.row_index,
    Sample.run_index,
    Sample.status,
    Sample.error_type,
    Sample.reward,
    Sample.tokens,
    Sample.duration_ms,
    Sample.cost_usd,
)
# They lie in the JSON of a sample, which takes longer to read than all the rest.
_JUDGE_COST = Sample.record["judge_cost_usd"].as_float()
_COST_UNKNOWN = Sample.record["cost_unknown"].as_boolean()


def read_columns(connection: Connection, run: Run) -> SampleColumns:
    """Everything recorded for a run, in no order."""
    # numpy and scipy take a fifth of a second to load, which most servers' starts need not pay.
    import numpy as np  # noqa: PLC0415

    from osmosis.metrics.row_table import SampleColumns  # noqa: PLC0415

    broken: dict[tuple[str, str | None], bool] = {}
    parts: list[list[Any]] = [[] for _ in range(9)]

    def floats(values: Iterable[Any]) -> Any:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    judged = _JUDGE_COST if run.judge_tokens_sum else null()
    unknown = _COST_UNKNOWN if run.cost_unknown_count else null()
    found = connection.execute(select(*_PLAIN, judged, unknown).where(Sample.run_id == run.id))
    # Straight from the driver: making a row object of each takes as long as reading it.
    cursor: Any = found.cursor
    while samples := cursor.fetchmany(SAMPLES_AT_ONCE):
        rows, indexes, runs, statuses, errors, rewards, tokens, times, *costs = zip(
            *samples, strict=True
        )
        kinds: Sequence[tuple[str, str | None]] = [*zip(statuses, errors, strict=True)]
        for kind in set(kinds) - set(broken):
            broken[kind] = is_broken(*kind)
        for part, values in zip(
            parts,
            (
                np.array(rows, dtype=np.int64),
                np.array(indexes, dtype=np.int64),
                np.array(runs, dtype=np.int64),
                np.array([status == "skipped" for status in statuses], dtype=bool),
                np.array([broken[kind] for kind in kinds], dtype=bool),
                floats(rewards),
                floats(tokens),
                floats(map(_cost, *costs)),
                floats(times),
            ),
            strict=True,
        ):
            part.append(values)
    kinds_of_columns = (np.int64,) * 3 + (bool,) * 2 + (np.float64,) * 4
    return SampleColumns(
        *(
            np.concatenate(part) if part else np.array([], dtype=kind)
            for part, kind in zip(parts, kinds_of_columns, strict=True)
        )
    )


def _cost(policy: float | None, judge: float | None, unknown: bool | None) -> float | None:
    return None if unknown else (policy or 0.0) + (judge or 0.0)
