from __future__ import annotations

import csv
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from osmosis.dataset.formats import DatasetError, format_of, iter_rows, iter_selected

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"))
ROWS = st.lists(st.fixed_dictionaries({"user_prompt": TEXT, "ground_truth": TEXT}), min_size=1)
FEW = settings(
    max_examples=60,
    deadline=None,  # the first file pays for loading Arrow
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return list(iter_rows(path, format_of(path)))


def refusal(path: Path) -> DatasetError:
    with pytest.raises(DatasetError) as caught:
        read(path)
    return caught.value


@FEW
@given(rows=ROWS)
def test_csv_text_survives_the_way_through_a_file(tmp_path: Path, rows: list[dict]) -> None:
    with (tmp_path / "d.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["user_prompt", "ground_truth"], quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    assert read(tmp_path / "d.csv") == rows


@FEW
@given(rows=ROWS)
def test_jsonl_text_survives_the_way_through_a_file(tmp_path: Path, rows: list[dict]) -> None:
    lines = [json.dumps(row, ensure_ascii=i % 2 == 0) for i, row in enumerate(rows)]
    assert read(write(tmp_path / "d.jsonl", "\r\n\n".join(lines))) == rows


@FEW
@given(rows=ROWS)
def test_parquet_text_survives_the_way_through_a_file(tmp_path: Path, rows: list[dict]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "d.parquet")
    assert read(tmp_path / "d.parquet") == rows


def test_a_csv_from_a_spreadsheet_reads_as_it_looks(tmp_path: Path) -> None:
    text = '\ufeffuser_prompt,ground_truth\r\n"two\r\nlines","a ""b"", c"\r\n\r\nx,y\r\n'
    assert read(write(tmp_path / "d.csv", text)) == [
        {"user_prompt": "two\r\nlines", "ground_truth": 'a "b", c'},
        {"user_prompt": "x", "ground_truth": "y"},
    ]


def test_a_row_index_column_without_a_name_is_dropped(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", ",user_prompt\n0,a\n1,b\n")
    assert read(path) == [{"user_prompt": "a"}, {"user_prompt": "b"}]


def test_a_ragged_csv_row_is_refused_with_its_line(tmp_path: Path) -> None:
    error = refusal(write(tmp_path / "d.csv", 'a,b\n"1\n2",x\n{"k": 1, "l": 2},y\n'))
    assert (error.file, error.row, error.line) == ("d.csv", 1, 4)
    assert "row 1 (line 4): has 3 fields, but the header names 2" in str(error)
    assert error.hint and '"{""level"": 1' in error.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"a;b\n1;2\n", "separated by semicolons"),
        (b"a,b,a\n1,2,3\n", "'a' more than once"),
        (b'a,b\n1,"open\n2,3\n', r"line 2\): opens a quote that is never closed"),
        (b'a,b\n"x"y,1\n', r"line 2\): has broken quoting"),
        (b"a,b\n1,ok\n2,\xff\n", r"row 1 \(line 3\): is not UTF-8 \(byte 0xff at position 3"),
        (b"a\xff,b\n", "line 1: is not UTF-8"),
    ],
)
def test_broken_csv_says_what_and_where(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        read(write(tmp_path / "d.csv", content))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n \n", "is empty"),
        (b'{"a": 1}\n\n[1]\n', r"row 1 \(line 3\): must be a JSON object, not an array"),
        (b'{"a": 1}\n{"b": 1}\n', r"row 1 \(line 2\): has other keys.*lacks 'a' and adds 'b'"),
        (b'{"a": 1}\n{"a": \n', r"row 1 \(line 2\): is not JSON"),
        (b'{"a": 1}\n{"a": "\\ud800"}\n', r"column 'a': holds half of a char.*\\ud800"),
        (b'{"a": "\xff"}\n', r"line 1\): is not UTF-8"),
        (b'{"a": Infinity}\n', "Infinity is no JSON value"),
        (b'{"a": ' + b"[" * 200_000 + b"\n", "nested too deeply|is not JSON"),
    ],
)
def test_broken_jsonl_says_what_and_where(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        read(write(tmp_path / "d.jsonl", content))


def test_a_whole_pair_of_surrogates_is_one_character(tmp_path: Path) -> None:
    assert read(write(tmp_path / "d.jsonl", '{"a": "\\ud83d\\ude00"}')) == [{"a": "😀"}]


def test_nan_is_missing_in_jsonl_and_parquet(tmp_path: Path) -> None:
    assert read(write(tmp_path / "d.jsonl", '{"a": NaN}')) == [{"a": None}]
    table = pa.table({"a": [float("nan"), 1.5], "m": [{"x": float("nan")}, {"x": 2.0}]})
    pq.write_table(table, tmp_path / "d.parquet")
    assert read(tmp_path / "d.parquet") == [
        {"a": None, "m": {"x": None}},
        {"a": 1.5, "m": {"x": 2.0}},
    ]


def test_parquet_values_become_json_values(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    when = datetime(2026, 1, 2, tzinfo=UTC)
    table = pa.table({"a": [when], "b": [Decimal("1.50")], "c": [b"text"], "d": [[1, None]]})
    pq.write_table(table, tmp_path / "d.parquet")
    row = read(tmp_path / "d.parquet")[0]
    assert row == {"a": "2026-01-02T00:00:00+00:00", "b": "1.50", "c": "text", "d": [1, None]}


def test_parquet_bytes_that_are_no_text_name_row_and_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [b"ok", b"\xff\xfe"]}), tmp_path / "d.parquet")
    error = refusal(tmp_path / "d.parquet")
    assert (error.row, error.column) == (1, "a")


def test_a_parquet_string_that_is_not_utf8_names_row_and_column(tmp_path: Path) -> None:
    broken = pa.array([b"ok", b"\xff\xfe", b"ok"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"a": broken}), tmp_path / "d.parquet")
    error = refusal(tmp_path / "d.parquet")
    assert (error.row, error.column) == (1, "a")


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    assert "cannot be read as Parquet" in str(refusal(write(tmp_path / "d.parquet", b"PAR1 no")))


def test_an_unknown_extension_suggests_the_right_one() -> None:
    with pytest.raises(DatasetError, match=r"'\.json'.*jsonl") as caught:
        format_of("rows.json")
    assert caught.value.hint and "one JSON object per line" in caught.value.hint


def dataset(path: Path, count: int) -> Path:
    rows = [{"user_prompt": f"q{i}\n,", "n": str(i)} for i in range(count)]
    if path.suffix == ".jsonl":
        write(path, "\n\n".join(map(json.dumps, rows)))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["user_prompt", "n"])
            writer.writeheader()
            writer.writerows(rows)
    return path


@FEW
@given(wanted=st.sets(st.integers(0, 49)), suffix=st.sampled_from(["csv", "jsonl", "parquet"]))
def test_selected_rows_are_those_of_the_whole_file(
    tmp_path: Path, wanted: set[int], suffix: str
) -> None:
    path = tmp_path / f"d.{suffix}"
    if not path.exists():
        dataset(path, 50)
    every = read(path)
    selected = list(iter_selected(path, suffix, sorted(wanted)))
    assert selected == [(row, every[row]) for row in sorted(wanted)]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_selected_row_beyond_the_end_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = dataset(tmp_path / f"d.{suffix}", 5)
    with pytest.raises(DatasetError, match="has no row 7"):
        list(iter_selected(path, suffix, [1, 7]))


def test_a_selection_stops_reading_text_after_its_last_row(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", '{"a": 1}\n{"a": 2}\nthis is no JSON\n')
    assert list(iter_selected(path, "jsonl", [1])) == [(1, {"a": 2})]


def test_a_selection_skips_parquet_row_groups_without_its_rows(tmp_path: Path) -> None:
    path = dataset(tmp_path / "d.parquet", 21)
    broken = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    broken[column.data_page_offset : column.data_page_offset + 20] = b"\xff" * 20
    path.write_bytes(broken)
    assert [row for row, _ in iter_selected(path, "parquet", [8, 20])] == [8, 20]
    with pytest.raises(DatasetError):
        list(iter_selected(path, "parquet", [0]))


def test_only_the_wanted_columns_of_parquet_are_decoded(tmp_path: Path) -> None:
    path = dataset(tmp_path / "d.parquet", 3)
    assert [*iter_selected(path, "parquet", [2], columns=["n", "metadata"])] == [(2, {"n": "2"})]
