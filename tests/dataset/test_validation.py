from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osmosis.dataset import validation
from osmosis.dataset.validation import Report, validate

GOOD = {"user_prompt": "q", "ground_truth": "a"}


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def check(tmp_path: Path, rows: list[dict[str, Any]]) -> Report:
    return validate(jsonl(tmp_path / "d.jsonl", rows), "jsonl")


def metadata(tmp_path: Path, *values: Any) -> Report:
    return check(tmp_path, [{"metadata": value} for value in values])


def test_a_good_dataset_has_its_rows_counted_and_shown(tmp_path: Path) -> None:
    report = check(tmp_path, [GOOD] * 30)
    assert report.valid and report.error_lines() == report.warnings == []
    assert (report.row_count, report.mode) == (30, "prompt")
    assert report.columns == ["user_prompt", "ground_truth"]
    assert report.preview == [GOOD] * 20


def test_fewer_than_four_rows_are_refused(tmp_path: Path) -> None:
    assert "has 3 rows; a dataset needs at least 4" in check(tmp_path, [GOOD] * 3).error_lines()[0]
    assert "has 1 row; " in check(tmp_path, [GOOD]).error_lines()[0]
    assert check(tmp_path, [GOOD] * 4).valid


def test_label_is_an_alias_of_ground_truth(tmp_path: Path) -> None:
    assert check(tmp_path, [{"user_prompt": "q", "label": "a"}] * 4).valid


@pytest.mark.parametrize(
    ("columns", "hints"),
    [
        ("question,answer", ["Rename 'question' to 'user_prompt'", "Rename 'answer' to 'ground"]),
        ("prompt,target", ["Rename 'prompt' to 'user_prompt'", "Rename 'target' to 'ground_t"]),
        ("input,ground_truth", ["Rename 'input' to 'user_prompt'"]),
        ("User_Prompt,Ground Truth", ["Rename 'User_Prompt'", "Rename 'Ground Truth'"]),
        ("userprompt,groundtruth", ["Rename 'userprompt'", "Rename 'groundtruth'"]),
        ("user_promt,ground_truht", ["Rename 'user_promt'", "Rename 'ground_truht'"]),
        ("a,b", ["Add it, or use a 'metadata' column", "Add it"]),
    ],
)
def test_missing_columns_suggest_the_near_ones(
    tmp_path: Path, columns: str, hints: list[str]
) -> None:
    path = tmp_path / "d.csv"
    path.write_text(f"{columns}\n" + "1,2\n" * 4)
    lines = validate(path, "csv").error_lines()
    assert len(lines) == len(hints)
    for line, hint in zip(lines, hints, strict=True):
        assert "d.csv: the column '" in line and hint in line


def test_a_misnamed_metadata_column_is_suggested_too(tmp_path: Path) -> None:
    line = check(tmp_path, [{"Metadata": {"a": 1}}] * 4).error_lines()[0]
    assert "Or rename 'Metadata' to 'metadata'" in line


def test_a_misnamed_system_prompt_is_a_warning(tmp_path: Path) -> None:
    report = check(tmp_path, [GOOD | {"system": "s"}] * 4)
    assert report.valid and "rename it to 'system_prompt'" in report.warnings[0]


def test_an_empty_prompt_names_row_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text('user_prompt,ground_truth\n"a\nb",1\n,2\nc,3\nd,4\n')
    (error,) = validate(path, "csv").errors
    assert (error.file, error.row, error.line, error.column) == ("d.csv", 1, 4, "user_prompt")


def test_the_first_five_errors_are_told_and_then_it_says_so(tmp_path: Path) -> None:
    lines = check(tmp_path, [GOOD | {"user_prompt": ""}] * 9).error_lines()
    assert len(lines) == 6
    assert "row 4 (line 5)" in lines[4]
    assert lines[5] == "Stopped after the first 5 errors; there may be more."


def test_readable_rows_between_broken_ones_are_still_checked(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    good = json.dumps(GOOD)
    path.write_text("\n".join([good, "{", good, '{"user_prompt": 1}', good, good]))
    assert [error.row for error in validate(path, "jsonl").errors] == [1, 3]


@pytest.mark.parametrize("value", [None, "", "  ", {}, "{}"])
def test_every_row_of_a_metadata_dataset_needs_an_object(tmp_path: Path, value: Any) -> None:
    (error,) = metadata(tmp_path, {"a": 1}, {"a": 1}, value, {"a": 1}).errors
    assert (error.row, error.column) == (2, "metadata")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"a": {"b": {}}}, "'a.b' is an empty object"),
        ({"a": [{}]}, "'a\\[\\]' is an empty object"),
        ({"n": 2**63}, "'n' does not fit a signed 64-bit"),
        ({"m": [-(2**63) - 1]}, "'m\\[\\]' does not fit a signed 64-bit"),
        ({"n": "one"}, "'n' is a string here but a number in row 0"),
        ({"n": True}, "'n' is a boolean here but a number in row 0"),
        ({"o": {"k": [1]}}, "'o.k' is an array here but a string in row 0"),
        ({"l": [{"k": 1}]}, "'l\\[\\].k' is a number here but a string in row 0"),
        ({"n": 1e999}, "Infinity is no JSON value"),
    ],
)
def test_metadata_that_breaks_a_rule_names_the_key(tmp_path: Path, bad: Any, said: str) -> None:
    first = {"n": 1, "o": {"k": "x"}, "l": [{"k": "x"}]}
    report = metadata(tmp_path, first, {"n": 1.5}, {"n": None}, bad)
    assert len(report.errors) == 1
    with pytest.raises(Exception, match=said):
        raise report.errors[0]
    assert report.errors[0].row == 3


def test_a_number_too_large_for_a_float_is_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"metadata": {"n": 1e999}}\n' * 4)
    assert "'n' is not a finite number" in validate(path, "jsonl").error_lines()[0]


def test_metadata_in_csv_is_json_text(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text('metadata\n"{""a"": 1}"\n"{""a"": 2}"\n"{\'a\': 2}"\n"{""a"": 2}"\n')
    (error,) = validate(path, "csv").errors
    assert (error.row, error.column) == (2, "metadata")
    assert error.hint and "json.dumps" in error.hint


def test_parquet_metadata_is_a_struct_or_text(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    for values in ([{"a": 1}] * 4, ['{"a": 1}'] * 4):
        pq.write_table(pa.table({"metadata": values}), path)
        assert validate(path, "parquet").valid
    pq.write_table(pa.table({"metadata": [1, 2, 3, 4]}), path)
    assert "has the type int64; it must be a struct" in validate(path, "parquet").error_lines()[0]


def test_metadata_with_endless_different_keys_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osmosis.dataset.metadata.MAX_PATHS", 10)
    report = metadata(tmp_path, *({f"key{i}": i} for i in range(20)))
    assert "more than 10 different keys" in report.error_lines()[0]


def test_very_deep_metadata_is_refused_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    deep = '{"metadata": ' + '{"a":' * 300 + "1" + "}" * 301 + "\n"
    path.write_text(deep * 4)
    assert "nested more than 100" in validate(path, "jsonl").error_lines()[0]


def test_size_limits_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.csv").touch()
    assert "is empty" in validate(tmp_path / "empty.csv", "csv").error_lines()[0]
    monkeypatch.setattr(validation, "MAX_FILE_BYTES", 10)
    assert "at most" in check(tmp_path, [GOOD] * 4).error_lines()[0]


def test_long_texts_are_cut_in_the_preview(tmp_path: Path) -> None:
    (first, *_) = check(tmp_path, [GOOD | {"user_prompt": "x" * 9_000}] * 4).preview
    assert len(first["user_prompt"]) < 2_100 and "9,000 characters" in first["user_prompt"]


def run_child(request: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "osmosis.dataset.validation_process"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_child_process_reports_as_strict_json(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "stored", [GOOD | {"user_prompt": ""}] * 4)
    body = run_child({"path": str(path), "format": "jsonl", "name": "mine.jsonl"})
    assert body["valid"] is False and body["row_count"] == 4
    assert body["errors"][0]["row"] == 0 and body["errors"][0]["column"] == "user_prompt"
    assert body["error_lines"][0].startswith("mine.jsonl, row 0 (line 1), column 'user_prompt'")


def test_the_child_process_reads_parquet_under_its_memory_limit(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    pq.write_table(pa.Table.from_pylist([GOOD] * 5_000), path)
    assert run_child({"path": str(path), "format": "parquet"})["row_count"] == 5_000
