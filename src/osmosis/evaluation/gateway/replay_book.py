"""The calls of a run that is replayed, found by request: one SQLite file in the run's scratch.

A call is looked for in the same sample first (source row and run index), by how many times that
sample asked the very same before. Only when the sample never asked it, another row's sample of
the same run index may answer: rows move when a dataset is edited, while runs of one row must stay
independent draws.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmosis.evaluation.gateway.asked import Asked
from osmosis.evaluation.gateway.json_codec import dumps, loads
from osmosis.evaluation.gateway.kept_calls import KeptCall, KeptFailure, read_kept
from osmosis.evaluation.gateway.replay_difference import difference
from osmosis.evaluation.plan import KeptSample
from osmosis.wire.samples import Route

_SCHEMA = """
CREATE TABLE samples (
    source_row INTEGER, run_index INTEGER, packed BLOB, PRIMARY KEY (source_row, run_index)
);
CREATE TABLE answers (
    route TEXT, digest TEXT, run_index INTEGER, source_row INTEGER, nth INTEGER,
    answer BLOB, failure BLOB, latency_s REAL, cost_usd REAL
);
"""
_INDEX = "CREATE INDEX by_request ON answers (digest, route, run_index, source_row, nth)"
_FIND = """
SELECT source_row, answer, failure, latency_s, cost_usd FROM answers
WHERE digest = ? AND route = ? AND run_index = ?
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What a call was answered: a chat completion, or the failure that it ended with."""

    source_row: int
    outcome: dict[str, Any] | KeptFailure
    latency_s: float
    cost_usd: float | None


class ReplayBook:
    """Filled once in a thread, then read on the event loop: a look-up takes microseconds."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        self._path = path
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.executescript(_SCHEMA)
        self.samples = 0
        self.damaged = 0

    def fill(self, samples: Iterable[KeptSample]) -> None:
        """Take in every sample. Blocking."""
        self._database.execute("BEGIN")
        for sample in samples:
            try:
                calls = list(read_kept(sample.packed))
            except ValueError:
                self.damaged += 1
                continue
            self.samples += 1
            self._database.execute("INSERT OR REPLACE INTO samples VALUES (?, ?, ?)", sample)
            self._database.executemany(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _rows(sample, calls)
            )
        self._database.execute("COMMIT")
        self._database.execute(_INDEX)

    def find(self, route: Route, asked: Asked) -> Found | None:
        """The answer to this call; None when the run has none."""
        place = asked.place
        key = (asked.fingerprint.digest, route, place.run_index)
        here = self._select(_FIND + "AND source_row = ? ORDER BY nth", (*key, place.source_row))
        if here:
            return _nth(here, asked.nth)
        elsewhere = self._select(
            _FIND + "AND nth = ? AND answer IS NOT NULL ORDER BY source_row LIMIT 1",
            (*key, asked.nth),
        )
        return elsewhere[0] if elsewhere else None

    def explain(self, route: Route, asked: Asked) -> str:
        """What differs, when :meth:`find` found nothing: a sentence for people."""
        place = asked.place
        row = self._database.execute(
            "SELECT packed FROM samples WHERE source_row = ? AND run_index = ?", place
        ).fetchone()
        if row is None:
            runs = self._database.execute(
                "SELECT count(*) FROM samples WHERE source_row = ?", (place.source_row,)
            ).fetchone()[0]
            if runs:
                return f"it has kept calls of {runs} other runs of that row, but not of this run"
            return "it has no kept calls of that row"
        calls = [call for call in read_kept(row[0]) if call.route == route]
        return difference(calls, asked, route)

    def close(self) -> None:
        self._database.close()
        self._path.unlink(missing_ok=True)

    def _select(self, query: str, values: Sequence[Any]) -> list[Found]:
        return [
            Found(
                source_row,
                loads(answer) if answer else KeptFailure(*loads(failure)),
                latency_s,
                cost_usd,
            )
            for source_row, answer, failure, latency_s, cost_usd in self._database.execute(
                query, values
            )
        ]


def _rows(sample: KeptSample, calls: Sequence[KeptCall]) -> Iterator[tuple[Any, ...]]:
    for call in calls:
        if call.answer is None and call.failure is None:
            continue
        yield (
            call.route,
            call.fingerprint.digest,
            sample.run_index,
            sample.source_row,
            call.nth,
            dumps(call.answer) if call.answer is not None else None,
            dumps(list(call.failure)) if call.failure is not None else None,
            call.latency_s,
            call.cost_usd,
        )


def _nth(found: Sequence[Found], nth: int) -> Found | None:
    """The answer of that number; else, when the request was never answered, how it failed."""
    answered = [one for one in found if not isinstance(one.outcome, KeptFailure)]
    if nth < len(answered):
        return answered[nth]
    return None if answered else found[0]
