from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.dataset.selection import format_ranges, parse_ranges, sample_size, select
from osmosis.wire.errors import ValidationFailed


@pytest.mark.parametrize(
    ("rows", "selected"),
    [(1, 1), (4, 1), (5, 1), (14, 1), (15, 2), (24, 2), (25, 3), (100, 10), (104, 10), (105, 11)],
)
def test_a_tenth_is_rounded_half_up_and_never_below_one(rows: int, selected: int) -> None:
    assert sample_size(rows) == selected
    assert len(select(rows).source_rows) == selected


@given(rows=st.integers(1, 5_000), seed=st.integers(0, 2**63 - 1))
def test_a_sample_is_sorted_distinct_inside_and_repeats_with_its_seed(rows: int, seed: int) -> None:
    selection = select(rows, seed=seed)
    chosen = list(selection.source_rows)
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(range(rows))
    assert (selection.kind, selection.seed) == ("sample", seed)
    assert list(select(rows, seed=seed).source_rows) == chosen


def test_a_drawn_seed_is_reported_and_gives_the_same_rows_again() -> None:
    drawn = select(1_000)
    assert drawn.seed is not None and drawn.seed < 2**53
    assert select(1_000, seed=drawn.seed) == drawn
    assert len({select(1_000).seed for _ in range(20)}) == 20


def test_every_row_is_drawn_equally_often() -> None:
    trials, rows = 4_000, 20
    seen = Counter(row for seed in range(trials) for row in select(rows, seed=seed).source_rows)
    expected = trials * sample_size(rows) / rows
    chi_squared = sum((seen[row] - expected) ** 2 / expected for row in range(rows))
    assert chi_squared < 45  # 19 degrees of freedom: exceeded by chance once in 1,000


def test_a_limit_takes_the_first_rows_and_more_than_there_are_means_all() -> None:
    assert list(select(10, limit=3).source_rows) == [0, 1, 2]
    assert list(select(10, limit=99).source_rows) == list(range(10))
    assert (select(10, limit=3).kind, select(10, limit=3).seed) == ("first", None)


@pytest.mark.parametrize("limit", [0, -1, True, 2.0, "3"])
def test_a_limit_that_is_no_positive_whole_number_is_refused(limit: object) -> None:
    with pytest.raises(ValidationFailed, match="limit must be a whole number"):
        select(10, limit=limit)  # pyright: ignore[reportArgumentType]


def test_an_empty_dataset_has_nothing_to_select() -> None:
    with pytest.raises(ValidationFailed, match="no rows"):
        select(0)


def test_a_sample_of_a_million_rows_survives_the_way_to_text_and_back() -> None:
    selection = select(1_000_000, seed=1)
    text = format_ranges(selection.source_rows)
    assert len(selection.source_rows) == 100_000
    assert parse_ranges(text, 1_000_000) == selection.source_rows


@given(st.sets(st.integers(0, 300)))
def test_ranges_survive_the_way_to_text_and_back(rows: set[int]) -> None:
    text = format_ranges(sorted(rows))
    assert (list(parse_ranges(text)) if rows else text) == (sorted(rows) if rows else "")


def test_the_first_million_rows_are_never_listed() -> None:
    assert format_ranges(range(1_000_000)) == "0-999999"
    assert parse_ranges("0-999999") == range(1_000_000)


def test_ranges_may_overlap_and_come_in_any_order() -> None:
    assert parse_ranges("7-9,1-3,2-8") == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_ranges_are_written_short() -> None:
    assert format_ranges([0, 1, 2, 3, 9, 11, 12]) == "0-3,9,11-12"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5-3", "backwards"),
        ("", "no row number"),
        ("1,,2", "no row number"),
        ("a", "no row number"),
        ("-1", "no row number"),
        ("0-10", "Row 10 does not exist"),
        ("٣", "no row number"),
    ],
)
def test_ranges_that_mean_nothing_are_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(ValidationFailed, match=said):
        parse_ranges(text, 10)


def test_a_huge_range_without_a_dataset_does_not_fill_the_memory() -> None:
    with pytest.raises(ValidationFailed, match="more than"):
        parse_ranges("0-999999999999")
