"""Many records, several judges, repeated judgements: all of them, a bounded number at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from osmosis.rubric.conversations import BadRecord, Record
from osmosis.rubric.journal import Journal, key_of, question_of
from osmosis.rubric.judge import Judge, Judgement
from osmosis.rubric.prompt import Task

NEVER_REACHED = frozenset({402, 403, 404})
"""Refusals that end a judge unless it has answered before: then they were about one text."""
REJECTED = 401


@dataclass
class Outcome:
    """One record with its judgements by (judge, run); ``problem`` when it could not be judged."""

    index: int
    label: str
    place: str
    problem: str | None = None
    judgements: dict[tuple[int, int], Judgement] = field(default_factory=dict)


@dataclass
class Counts:
    """How far it is. ``kept`` of the scored ones come from an earlier, broken-off run."""

    scored: int = 0
    unscored: int = 0
    failed: int = 0
    bad_records: int = 0
    kept: int = 0

    @property
    def done(self) -> int:
        return self.scored + self.unscored + self.failed


class Judging:
    """One walk over the records; :attr:`outcomes` and :attr:`counts` grow while it runs."""

    def __init__(
        self,
        judges: Sequence[Judge],
        task: Task,
        *,
        number: int,
        concurrency: int,
        journal: Journal | None = None,
        on_progress: Callable[[Counts], None] = lambda _: None,
    ) -> None:
        self._judges = judges
        self._task = task
        self._number = number
        self._concurrency = concurrency
        self._journal = journal
        self._on_progress = on_progress
        self._answered: set[int] = set()
        self._ended: dict[int, Judgement] = {}
        self.outcomes: list[Outcome] = []
        self.counts = Counts()

    async def run(self, records: Iterable[Record | BadRecord]) -> list[Outcome]:
        """Judge all; the outcomes in the order of the records."""
        jobs = self._jobs(records)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work(jobs))
        return self.outcomes

    def _jobs(
        self, records: Iterable[Record | BadRecord]
    ) -> Iterator[tuple[Outcome, Record, int, int, str]]:
        seen: Counter[str] = Counter()
        questions = [question_of(judge, self._task) for judge in self._judges]
        for record in records:
            outcome = Outcome(record.index, record.label, record.place)
            self.outcomes.append(outcome)
            if isinstance(record, BadRecord):
                outcome.problem = record.problem
                self.counts.bad_records += 1
                continue
            digest = record.material.digest()
            seen[digest] += 1
            for run_index in range(self._number):
                for number, question in enumerate(questions):
                    key = key_of(question, digest, seen[digest], run_index)
                    yield outcome, record, number, run_index, key

    async def _work(self, jobs: Iterator[tuple[Outcome, Record, int, int, str]]) -> None:
        for outcome, record, number, run_index, key in jobs:
            kept = self._journal.kept.get(key) if self._journal else None
            judgement = kept or self._ended.get(number)
            if judgement is None:
                judgement = await self._judges[number].judge(self._task, record.material)
                self._watch(number, judgement)
                if self._journal and judgement.status == "scored":
                    self._journal.keep(key, judgement)
            outcome.judgements[number, run_index] = judgement
            self._count(judgement, kept=kept is not None)

    def _watch(self, number: int, judgement: Judgement) -> None:
        """Stop asking a judge that will answer nothing: the key is rejected, nobody is there."""
        if judgement.status != "failed":
            self._answered.add(number)
            return
        status, kind = judgement.http_status, judgement.kind or ""
        absent = status in NEVER_REACHED or kind == "connection" or kind.startswith("model_")
        if status == REJECTED or (absent and number not in self._answered):
            self._ended[number] = Judgement(
                status="failed",
                reason=f"not asked, after: {judgement.reason}",
                kind=judgement.kind,
                http_status=status,
            )

    def _count(self, judgement: Judgement, *, kept: bool) -> None:
        name = judgement.status
        setattr(self.counts, name, getattr(self.counts, name) + 1)
        self.counts.kept += kept
        self._on_progress(self.counts)
