from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from osmosis.evaluation.journal import Journal, read_journal
from osmosis.evaluation.local import sink as sink_module
from osmosis.evaluation.local.projections import RunFacts
from osmosis.evaluation.local.run_directory import RunDirectory
from osmosis.evaluation.local.sink import LocalSink
from osmosis.evaluation.redaction import Redactor
from osmosis.metrics.summary import Summary
from osmosis.wire.errors import Conflict, RunFailed
from osmosis.wire.samples import SampleRecord

FACTS = RunFacts("a" * 32, "r", "d", "m", "multiply", 2, 1.0, 20, 40, "2026-01-01T00:00:00+00:00")


def sample(row: int, run: int = 0, **more: object) -> SampleRecord:
    rollout_id = f"{row:016x}{run:016x}"
    return SampleRecord.model_validate(
        {
            "row_index": row,
            "run_index": run,
            "source_row": row,
            "rollout_id": rollout_id,
            "status": "success",
            "reward": float(run),
            "duration_ms": 2.0,
            "started_at": 1.0,
            "finished_at": 1.002,
            "trajectory": {"session_id": rollout_id, "steps": []},
            **more,
        }
    )


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    made = RunDirectory(tmp_path, "r")
    made.path.mkdir()
    return made


def sink_of(directory: RunDirectory, journal: Journal) -> LocalSink:
    return LocalSink(directory, FACTS, journal, Redactor(["hunter2"]), kept=journal.records)


async def test_a_record_is_on_disk_before_it_is_acknowledged(directory: RunDirectory):
    async with sink_of(directory, Journal(directory.journal)) as sink:
        for row in range(3):
            await sink.record(sample(row))
            assert len(read_journal(directory.journal)) == row + 1
            assert (directory.trial(sample(row).rollout_id) / "trajectory.json").exists()


async def test_records_that_come_together_share_an_fsync(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
):
    journal = Journal(directory.journal)
    appends: list[int] = []
    append = journal.append
    monkeypatch.setattr(
        journal, "append", lambda records: (appends.append(len(records)), append(records))
    )
    async with sink_of(directory, journal) as sink:
        await asyncio.gather(*(sink.record(sample(row)) for row in range(20)))
    assert sum(appends) == 20
    assert len(appends) < 5


async def test_a_disk_that_refuses_ends_the_run_with_a_reason(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
):
    journal = Journal(directory.journal)

    def no_room(_records: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "append", no_room)
    async with sink_of(directory, journal) as sink:
        with pytest.raises(RunFailed, match="No space left"):
            await sink.record(sample(0))
        assert sink.pending == 40


async def test_the_readable_files_tell_what_the_journal_holds(directory: RunDirectory):
    async with sink_of(directory, Journal(directory.journal)) as sink:
        await sink.record(sample(1, 1))
    async with sink_of(directory, Journal(directory.journal)) as sink:
        await sink.record(sample(0, 0, trajectory=None, status="failed", error_type="timeout"))
        artifact = directory.path / "out.txt"
        artifact.write_text("hello")
        await sink.artifact(sample(0, 1).rollout_id, "deep/out.txt", artifact)
        await sink.record(sample(0, 1, artifacts=["deep/out.txt"], output="printed"))
        sink.log("info", "run", "the key is hunter2\nreally", {"also": "hunter2"})
        await sink.conclude("incomplete")
    path = directory.path
    rows = [json.loads(line) for line in (path / "index.jsonl").read_text().splitlines()]
    assert [(r["row_index"], r["run_index"], r.get("resumed")) for r in rows] == [
        (0, 0, None), (0, 1, None), (1, 1, True),
    ]  # fmt: skip
    assert "trajectory_filename" not in rows[0]
    assert (path / "summary.jsonl").read_bytes() == (path / "index.jsonl").read_bytes()
    assert json.loads((path / "progress.json").read_text())["total_runs"] == 40
    metrics = json.loads((path / "metrics.json").read_text())
    assert metrics["eval_run"]["status"] == "incomplete"
    assert metrics["summary"]["total_samples"] == 3
    assert json.loads((path / "trajectories/row_1_run_1.json").read_text())["steps"] == []
    assert (path / "artifacts/row_0_run_1/deep/out.txt").read_text() == "hello"
    trial = directory.trial(sample(0, 1).rollout_id)
    assert (trial / "logs/output.txt").read_text() == "printed"
    log = (path / "logs.txt").read_text()
    assert "hunter2" not in log
    assert log.count("\n") == 1
    assert log.endswith('INFO [run] the key is [REDACTED]\\nreally {"also":"[REDACTED]"}\n')


async def test_files_of_a_moment_ago_never_replace_the_last_ones(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
):
    begun, let_go = threading.Event(), threading.Event()
    write = sink_module.write_projections

    def slow(*args: Any, status: str, **more: Any) -> Summary:
        if status == "running":
            begun.set()
            assert let_go.wait(10)
        return write(*args, status=status, **more)

    monkeypatch.setattr(sink_module, "write_projections", slow)
    monkeypatch.setattr(sink_module, "PROJECTION_S", 0.0)
    async with sink_of(directory, Journal(directory.journal)) as sink:
        await asyncio.to_thread(begun.wait, 10)
        last = asyncio.create_task(sink.conclude("finished"))
        await asyncio.sleep(0)
        let_go.set()
        await last
    metrics = json.loads((directory.path / "metrics.json").read_text())
    assert metrics["eval_run"]["status"] == "finished"


def test_a_run_is_worked_on_by_one_process_at_a_time(directory: RunDirectory):
    with directory.locked(), pytest.raises(Conflict, match="Another process"), directory.locked():
        pass
    with directory.locked():
        archived = directory.archive()
    assert archived is not None
    assert archived.name.startswith("r.archive-")
