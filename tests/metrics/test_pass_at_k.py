"""pass@k and pass^k against their binomial definitions."""

from __future__ import annotations

from collections import Counter
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis.metrics.pass_at_k import (
    pass_at_k_points,
    pass_at_k_value,
    pass_hat_k_points,
    pass_hat_k_value,
)


@settings(deadline=None)
@given(st.integers(1, 60), st.data())
def test_the_estimate_equals_its_binomial_definition(attempts: int, data: st.DataObject) -> None:
    passes = data.draw(st.integers(0, attempts))
    k = data.draw(st.integers(1, attempts))
    expected = 1 - comb(attempts - passes, k) / comb(attempts, k)
    assert pass_at_k_value(attempts, passes, k) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)
@given(st.integers(1, 60), st.data())
def test_the_estimate_of_all_passing_equals_its_binomial_definition(
    attempts: int, data: st.DataObject
) -> None:
    passes = data.draw(st.integers(0, attempts))
    k = data.draw(st.integers(1, attempts))
    expected = comb(passes, k) / comb(attempts, k)
    assert pass_hat_k_value(attempts, passes, k) == pytest.approx(expected, abs=1e-12)
    assert pass_hat_k_value(attempts, passes, k) <= pass_at_k_value(attempts, passes, k) + 1e-12


def test_both_curves_begin_at_the_same_point_and_part() -> None:
    rows = Counter({(4, 3): 2, (4, 0): 1})
    at, hat = pass_at_k_points(rows, 4), pass_hat_k_points(rows, 4)
    assert at[0] == hat[0] == (1, 0.5)
    assert [point.value for point in at] == [0.5, 2 / 3, 2 / 3]
    assert [point.value for point in hat] == [0.5, (0.5 * 2 + 0) / 3, 0.0]


def test_the_published_example_of_ten_attempts() -> None:
    assert pass_at_k_value(10, 3, 1) == pytest.approx(0.3)
    assert pass_at_k_value(10, 3, 5) == pytest.approx(1 - 21 / 252)


def test_k_doubles_up_to_the_number_of_runs() -> None:
    points = pass_at_k_points(Counter({(6, 2): 3}), n_runs=6)
    assert [point.k for point in points] == [1, 2, 4]


def test_rows_with_too_few_attempts_leave_the_average() -> None:
    points = pass_at_k_points(Counter({(2, 0): 1, (1, 1): 1}), n_runs=2)
    assert [tuple(point) for point in points] == [(1, 0.5), (2, 0.0)]


def test_one_point_is_no_curve() -> None:
    assert pass_at_k_points(Counter({(1, 1): 4}), n_runs=2) == []


@pytest.mark.parametrize(("attempts", "passes", "k"), [(2, 1, 3), (2, 1, 0), (2, 3, 1)])
def test_nonsense_is_refused(attempts: int, passes: int, k: int) -> None:
    with pytest.raises(ValueError, match="attempts"):
        pass_at_k_value(attempts, passes, k)
