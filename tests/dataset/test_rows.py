from __future__ import annotations

import pytest

from osmosis.dataset.errors import DatasetError
from osmosis.dataset.rows import to_row_item


def test_a_prompt_row_becomes_messages_and_a_label() -> None:
    item = to_row_item(
        {"system_prompt": "Be brief.", "user_prompt": "6*7?", "ground_truth": 42, "extra": 1}, 3, 9
    )
    assert (item.row_index, item.source_row) == (3, 9)
    assert item.initial_messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "6*7?"},
    ]
    assert (item.label, item.metadata) == ("42", None)


def test_ground_truth_wins_over_its_alias_unless_it_is_empty() -> None:
    both = {"user_prompt": "q", "ground_truth": "a", "label": "b"}
    assert to_row_item(both, 0, 0).label == "a"
    assert to_row_item({**both, "ground_truth": ""}, 0, 0).label == "b"


def test_numbers_become_text_and_nan_is_absent() -> None:
    assert to_row_item({"user_prompt": 7, "ground_truth": 1.5}, 0, 0).initial_messages == [
        {"role": "user", "content": "7"}
    ]
    with pytest.raises(DatasetError, match="'ground_truth': is empty"):
        to_row_item({"user_prompt": 7, "ground_truth": float("nan")}, 0, 0)


@pytest.mark.parametrize("metadata", [{"k": [1]}, '{"k": [1]}', ' {"k": [1]}\n'])
def test_metadata_is_an_object_or_its_json_text(metadata: object) -> None:
    item = to_row_item({"metadata": metadata}, 0, 0)
    assert (item.metadata, item.initial_messages, item.label) == ({"k": [1]}, [], None)


@pytest.mark.parametrize("metadata", [None, "", " ", "{}", {}, float("nan")])
def test_empty_metadata_counts_as_absent(metadata: object) -> None:
    assert to_row_item({"metadata": metadata, "user_prompt": "q"}, 0, 0).metadata is None
    with pytest.raises(DatasetError, match="row 5: has neither a prompt nor metadata"):
        to_row_item({"metadata": metadata}, 0, 5)


@pytest.mark.parametrize("metadata", ["[1]", 5, "x", [1], True, "{\"a\": 'b'}"])
def test_metadata_that_is_no_object_names_its_row(metadata: object) -> None:
    with pytest.raises(DatasetError, match="row 2, column 'metadata'"):
        to_row_item({"metadata": metadata, "user_prompt": "q"}, 0, 2)


@pytest.mark.parametrize("missing", ["user_prompt", "ground_truth"])
def test_a_prompt_row_needs_both_prompt_and_label(missing: str) -> None:
    with pytest.raises(DatasetError, match=f"d.csv, row 0, column '{missing}'"):
        row = {"user_prompt": "q", "ground_truth": "a"} | {missing: ""}
        to_row_item(row, 0, 0, name="d.csv")
