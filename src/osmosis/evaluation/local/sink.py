"""The sink of a local run: the trial's files, then the journal, then the acknowledgement.

Records that come while the disk is busy share its next fsync. The readable files are made anew at
most every few seconds, after a pause that grows with what the last time took, so that a sample
costs the same whether it is the tenth or the millionth.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from osmosis.evaluation.journal import Journal, JournalRecord, Key
from osmosis.evaluation.local.projections import TRAJECTORY, RunFacts, write_projections
from osmosis.evaluation.local.run_directory import KEPT_CALLS, RunDirectory
from osmosis.evaluation.redaction import Redactor
from osmosis.metrics.summary import Summary
from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import LogLevel, Stage
from osmosis.wire.samples import SampleRecord

PROJECTION_S = 5.0
PAUSE_FACTOR = 20.0
MAX_LOG_CHARS = 16_000
INDENTED = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE

LogListener = Callable[[LogLevel, str, str], None]


class LocalSink:
    """``Sink`` into a run directory. Use as an async context manager, under the run's lock."""

    def __init__(
        self,
        directory: RunDirectory,
        facts: RunFacts,
        journal: Journal,
        redactor: Redactor,
        *,
        kept: Mapping[Key, JournalRecord],
        on_log: LogListener = lambda level, step, message: None,
    ) -> None:
        self._directory = directory
        self._facts = facts
        self._journal = journal
        self._redactor = redactor
        self._on_log = on_log
        self.records: dict[Key, JournalRecord] = dict(journal.records)
        self.resumed: set[Key] = set(kept)
        self.pending = facts.total_runs - len(kept)
        self.counts = Counts.of(kept, facts.pass_threshold)
        self.stage_name = "starting"
        self.effective_values: dict[str, Any] = {}
        self._waiting: list[tuple[SampleRecord, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._projector: asyncio.Task[None] | None = None
        self._projecting = asyncio.Lock()
        self._concluded = False
        self._logs = directory.logs.open("a", encoding="utf-8", buffering=1)

    async def __aenter__(self) -> LocalSink:
        self._projector = asyncio.create_task(self._keep_projecting())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._projector is not None:
            self._projector.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._projector
        await self.flush()
        self._logs.close()

    # --- Sink --------------------------------------------------------------------------------

    async def stage(self, stage: Stage) -> None:
        self.stage_name = stage
        self.log("info", "stage", stage)

    def log(
        self, level: LogLevel, step: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        text = self._redactor.text(message)[:MAX_LOG_CHARS]
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        line = f"{stamp}Z {level.upper()} [{step}] {_one_line(text)}"
        known = {k: v for k, v in (details or {}).items() if v is not None}
        if known:
            shown = orjson.dumps(known, default=str).decode()
            line += f" {self._redactor.text(shown)[:MAX_LOG_CHARS]}"
        self._logs.write(line + "\n")
        self._on_log(level, step, text)

    async def record(self, record: SampleRecord) -> None:
        """Returns once the record is on disk."""
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, durable))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        await durable

    async def artifact(self, rollout_id: str, relative_path: str, source: Path) -> None:
        target = self._directory.trial(rollout_id) / "artifacts" / relative_path
        await asyncio.to_thread(_keep, source, target)

    async def effective(self, values: dict[str, Any]) -> None:
        self.effective_values |= values

    async def flush(self) -> None:
        while self._writer is not None and not self._writer.done():
            await asyncio.wait({self._writer})

    # --- writing -----------------------------------------------------------------------------

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            records = [JournalRecord.of(record) for record, _ in batch]
            try:
                await asyncio.to_thread(self._commit, [record for record, _ in batch], records)
            except OSError as error:
                failure = RunFailed(
                    "internal",
                    f"The results cannot be written to {self._directory.path}: {error.strerror}.",
                    hint="Make room on the disk and run the same command again; it goes on.",
                )
                for _, durable in batch:
                    if not durable.done():
                        durable.set_exception(failure)
                continue
            for record, (_, durable) in zip(records, batch, strict=True):
                self.records[record.key] = record
                self.resumed.discard(record.key)
                self.pending -= 1
                self.counts.add(record)
                if not durable.done():
                    durable.set_result(None)

    def _commit(self, samples: list[SampleRecord], records: list[JournalRecord]) -> None:
        self._directory.trials.mkdir(exist_ok=True)
        for sample in samples:
            self._write_trial(sample)
        self._journal.append(records)

    def _write_trial(self, sample: SampleRecord) -> None:
        trial = self._directory.trial(sample.rollout_id)
        trial.mkdir(exist_ok=True)
        if sample.trajectory is not None:
            content = orjson.dumps(sample.trajectory, option=INDENTED)
            (trial / TRAJECTORY).write_bytes(content)
        if sample.output:
            (trial / "logs").mkdir(exist_ok=True)
            (trial / "logs" / "output.txt").write_text(sample.output)
        if sample.kept_calls:
            (trial / KEPT_CALLS).write_bytes(base64.b64decode(sample.kept_calls))
        rest = sample.model_dump(exclude={"trajectory", "output", "kept_calls"}, exclude_none=True)
        (trial / "diagnostics.json").write_bytes(orjson.dumps(rest, option=INDENTED))

    # --- the readable files ------------------------------------------------------------------

    async def conclude(self, status: str) -> Summary:
        """Make the readable files for the last time; nothing writes them after that."""
        self._concluded = True
        async with self._projecting:
            return await self._project(status)

    async def _project(self, status: str) -> Summary:
        return await asyncio.to_thread(
            write_projections,
            self._directory,
            self._facts,
            dict(self.records),
            resumed=frozenset(self.resumed),
            status=status,
        )

    async def _keep_projecting(self) -> None:
        pause_s, shown = PROJECTION_S, -1
        while True:
            await asyncio.sleep(pause_s)
            if self.pending == shown:
                continue
            shown, began = self.pending, time.monotonic()
            async with self._projecting:
                if self._concluded:
                    return
                with contextlib.suppress(OSError):  # the end of the run tries again, and tells
                    await self._project("running")
            pause_s = max(PROJECTION_S, (time.monotonic() - began) * PAUSE_FACTOR)


class Counts:
    """The running numbers, kept as records come in."""

    def __init__(self, pass_threshold: float) -> None:
        self._threshold = pass_threshold
        self.total = self.graded = self.passed = self.failed = self.skipped = 0
        self.reward_sum = 0.0

    @classmethod
    def of(cls, records: Mapping[Key, JournalRecord], pass_threshold: float) -> Counts:
        counts = cls(pass_threshold)
        for record in records.values():
            counts.add(record)
        return counts

    def add(self, record: JournalRecord) -> None:
        self.total += 1
        self.failed += record.status == "failed"
        if record.status == "skipped":
            self.skipped += 1
        elif record.reward is not None:
            self.graded += 1
            self.reward_sum += record.reward
            self.passed += record.reward >= self._threshold

    def results(self) -> dict[str, Any]:
        """In the shape of a run's ``results`` on the wire."""
        completed = self.total - self.skipped
        return {
            "total_runs": self.total,
            "graded": self.graded,
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "pass_rate": self.passed / completed if completed else 0.0,
            **({"score": self.reward_sum / self.graded} if self.graded else {}),
        }


def _keep(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", "\\n")
