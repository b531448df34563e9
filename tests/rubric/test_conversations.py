from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from osmosis.rollout.trajectory import build_trajectory
from osmosis.rubric.conversations import (
    BadRecord,
    Record,
    count_records,
    read_records,
    require_usable,
)
from osmosis.wire.errors import NotFound, ValidationFailed


def write(path: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n")
    return path


def one(tmp_path: Path, value: Any) -> Record | BadRecord:
    (record,) = read_records(write(tmp_path / "one.jsonl", value))
    return record


def said(text: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_the_last_assistant_message_with_text_is_judged_and_nothing_else(tmp_path: Path):
    messages = [
        {"role": "user", "content": "6 x 7?"},
        said("41"),
        {"role": "user", "content": "Sure?"},
        said("42"),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "done"},
    ]
    record = one(tmp_path, {"messages": messages, "solution_str": "ignored"})
    assert isinstance(record, Record)
    assert record.material.candidate == "42"
    assert record.material.conversation is None


def test_the_messages_before_it_are_shown_when_asked_for(tmp_path: Path):
    messages = [{"role": "user", "content": "6 x 7?"}, said("42"), {"role": "user", "content": "x"}]
    path = write(tmp_path / "one.jsonl", {"messages": messages})
    (record,) = read_records(path, with_conversation=True)
    assert isinstance(record, Record)
    assert record.material.conversation == messages[:1]


def test_the_text_parts_of_a_list_are_joined_by_lines(tmp_path: Path):
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"text": "b"}]
    record = one(tmp_path, {"messages": [said(parts)]})
    assert isinstance(record, Record)
    assert record.material.candidate == "a\nb"


def test_what_is_known_beside_it_is_taken_and_wrong_types_are_ignored(tmp_path: Path):
    known = {"ground_truth": "42", "original_input": "6 x 7?", "metadata": {"level": 1}, "id": "a"}
    record = one(tmp_path, {"solution_str": "42", **known})
    assert isinstance(record, Record)
    material = record.material
    assert (material.ground_truth, material.original_input) == ("42", "6 x 7?")
    assert (material.metadata, record.label) == ({"level": 1}, "a")
    wrong = {"ground_truth": 42, "original_input": ["x"], "metadata": "x", "id": 7}
    record = one(tmp_path, {"solution_str": "42", "conversation_id": "c", **wrong})
    assert isinstance(record, Record)
    material = record.material
    assert (material.ground_truth, material.original_input, material.metadata) == (None,) * 3
    assert record.label == "c"


def test_a_bad_line_is_named_and_the_others_are_read(tmp_path: Path):
    path = tmp_path / "c.jsonl"
    lines = [
        b'\xef\xbb\xbf{"solution_str": "first"}',
        b"",
        b"not json",
        b'["a", "list"]',
        b'{"solution_str": "  "}',
        b'{"messages": [{"role": "user", "content": "x"}]}',
        b'{"messages": [], "solution_str": "kept"}',
        b'{"solution_str": "x", "metadata": {"a": NaN}}',
        b'{"solution_str": "\xff"}',
        b'{"solution_str": "\\ud800 lone"}',
        b"[" * 100_000,
        b'{"solution_str": "last"}',
    ]
    path.write_bytes(b"\r\n".join(lines))
    found = list(read_records(path))
    assert [r.index for r in found] == list(range(1, 12))
    good = {r.place: r.material.candidate for r in found if isinstance(r, Record)}
    assert good == {
        "line 1": "first",
        "line 7": "kept",
        "line 10": "\ud800 lone",
        "line 12": "last",
    }
    bad = {r.place: r.problem for r in found if isinstance(r, BadRecord)}
    assert list(bad) == [f"line {number}" for number in (3, 4, 5, 6, 8, 9, 11)]
    assert "column 1" in bad["line 3"]
    assert "a list" in bad["line 4"]
    assert "no assistant message" in bad["line 6"]
    assert "NaN" in bad["line 8"]
    assert "UTF-8" in bad["line 9"]
    assert count_records(path) == 11


def test_a_file_without_one_usable_record_is_refused_with_its_first_lines(tmp_path: Path):
    path = write(tmp_path / "array.json", "[", '{"solution_str": ', "]")
    with pytest.raises(ValidationFailed, match=r"line 1: it is not JSON.*one whole object"):
        require_usable(path)
    with pytest.raises(ValidationFailed, match="nothing to judge"):
        require_usable(write(tmp_path / "empty.jsonl", "", ""))
    with pytest.raises(NotFound):
        count_records(tmp_path / "none.jsonl")


def test_the_lines_of_an_exported_run_are_conversations(tmp_path: Path):
    document = trajectory([{"role": "user", "content": "6 x 7?"}, said("42")], label="43")
    line = {"row_index": 3, "run_index": 1, "status": "success", "trajectory": document}
    record = one(tmp_path, line)
    assert isinstance(record, Record)
    assert record.label == "row_3_run_1"
    material = record.material
    assert (material.candidate, material.original_input, material.ground_truth) == (
        "42",
        "6 x 7?",
        "43",
    )
    assert isinstance(one(tmp_path, {"row_index": 3, "status": "failed"}), BadRecord)


def trajectory(messages: list[dict[str, Any]], label: str) -> dict[str, Any]:
    return build_trajectory(
        messages,
        rollout_id="a" * 32,
        label=label,
        reward=None,
        metrics={},
        extra_fields={},
        request_metadata=None,
        request_extra_fields=None,
    )


def test_the_trajectories_of_a_downloaded_run_are_conversations(tmp_path: Path):
    folder = tmp_path / "run" / "trajectories"
    folder.mkdir(parents=True)
    for row, run in ((10, 0), (2, 1), (2, 0)):
        messages = [{"role": "user", "content": f"question {row}"}, said(f"answer {row}.{run}")]
        document = trajectory(messages, label=f"label {row}")
        (folder / f"row_{row}_run_{run}.json").write_text(json.dumps(document))
    (folder / "row_3_run_0.json").write_text('{"steps": []}')
    for directory in (tmp_path / "run", folder):
        found = list(read_records(directory, with_conversation=True))
        assert [record.label for record in found] == [
            "row_2_run_0",
            "row_2_run_1",
            "row_3_run_0",
            "row_10_run_0",
        ]
        record = found[1]
        assert isinstance(record, Record)
        material = record.material
        assert (material.candidate, material.original_input) == ("answer 2.1", "question 2")
        assert material.ground_truth == "label 2"
        assert material.conversation == [{"role": "user", "content": "question 2"}]
        assert isinstance(found[2], BadRecord)
        assert count_records(directory) == 4
    with pytest.raises(ValidationFailed, match="no trajectories"):
        count_records(tmp_path)
