from __future__ import annotations

import stat
from pathlib import Path

import pytest

from osmosis.evaluation.journal import Journal, JournalRecord, read_journal
from osmosis.wire.errors import Conflict


def result(row: int, run: int = 0, status: str = "success", **more: object) -> JournalRecord:
    values = {"rollout_id": f"{row:032x}", "duration_ms": 1.5, **more}
    return JournalRecord(row_index=row, run_index=run, status=status, **values)  # type: ignore[arg-type]


def written(path: Path, *records: JournalRecord) -> bytes:
    journal = Journal(path)
    journal.append(records)
    journal.close()
    return path.read_bytes()


def test_a_line_is_compact_sorted_and_without_nulls(tmp_path: Path):
    text = written(tmp_path / "events.jsonl", result(3, reward=1.0, source_row_index=7))
    assert text == (
        b'{"duration_ms":1.5,"reward":1.0,"rollout_id":"00000000000000000000000000000003",'
        b'"row_index":3,"run_index":0,"source_row_index":7,"status":"success"}\n'
    )
    assert stat.S_IMODE((tmp_path / "events.jsonl").stat().st_mode) == 0o600


def test_the_last_record_of_a_sample_counts(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    written(path, result(0, status="failed", error_type="timeout"), result(1))
    written(path, result(0, reward=0.5))
    records = read_journal(path)
    assert [records[0, 0].status, records[0, 0].reward, len(records)] == ["success", 0.5, 2]


def test_a_torn_end_is_cut_off_at_every_byte(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    whole = written(path, result(0))
    both = written(path, result(1))
    for size in range(len(whole), len(both)):
        path.write_bytes(both[:size])
        assert list(read_journal(path)) == [(0, 0)]
        assert path.read_bytes() == whole
        written(path, result(1))
        assert len(read_journal(path)) == 2


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"nonsense",
        b'{"row_index":0}',
        b'{"duration_ms":1,"rollout_id":"a","row_index":-1,"run_index":0,"status":"success"}',
        b'{"duration_ms":1,"rollout_id":"a","row_index":true,"run_index":0,"status":"success"}',
        b'{"duration_ms":1,"rollout_id":"a","row_index":0,"run_index":0,"status":"fine"}',
        b'{"duration_ms":NaN,"rollout_id":"a","row_index":0,"run_index":0,"status":"success"}',
        b'{"duration_ms":1,"rollout_id":"a","row_index":0,"run_index":0,"status":"failed","x":1}',
    ],
)
def test_any_other_bad_line_is_refused_with_its_number(tmp_path: Path, line: bytes):
    path = tmp_path / "events.jsonl"
    good = written(path, result(0))
    path.write_bytes(good + line + b"\n" + good)
    with pytest.raises(Conflict, match="line 2, is damaged") as refused:
        Journal(path)
    assert "--fresh" in (refused.value.hint or "")
    assert path.read_bytes() == good + line + b"\n" + good


def test_a_disk_that_fills_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "events.jsonl"
    journal = Journal(path)
    journal.append([result(0)])
    before = path.read_bytes()

    def no_room(_file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", no_room)
        with pytest.raises(OSError, match="No space"):
            journal.append([result(1)])
    assert path.read_bytes() == before
    journal.append([result(1)])
    journal.close()
    assert len(read_journal(path)) == 2
