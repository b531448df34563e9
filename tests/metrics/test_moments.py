"""Sums without rounding."""

from __future__ import annotations

import json
import math
import random
import statistics
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis.metrics.moments import Moments, pack, root_of_ratio, unpack

finite = st.floats(allow_nan=False, allow_infinity=False)


def moments_of(values: list[float]) -> Moments:
    moments = Moments()
    for value in values:
        moments.add(value)
    return moments


@settings(deadline=None)
@given(st.lists(finite, min_size=1, max_size=40), st.integers())
def test_neither_order_nor_storing_in_between_changes_a_digit(values: list[float], seed: int):
    shuffled = list(values)
    random.Random(seed).shuffle(shuffled)
    straight, broken = moments_of(values), Moments()
    for value in shuffled:
        broken = Moments.load(json.loads(json.dumps(broken.dump())))
        broken.add(value)
    assert broken == straight


@settings(deadline=None)
@given(st.lists(finite, min_size=1, max_size=40))
def test_the_mean_is_the_rational_one_correctly_rounded(values: list[float]):
    exact = sum(map(Fraction, values)) / len(values)
    assert moments_of(values).mean() == float(exact)


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_the_spread_agrees_with_the_statistics_module(values: list[float]):
    moments = moments_of(values)
    assert moments.std() == pytest.approx(statistics.pstdev(values), rel=1e-12)
    assert moments.std(ddof=1) == pytest.approx(statistics.stdev(values), rel=1e-12)


def test_a_sum_that_floats_get_wrong_is_right():
    values = [1e16, 1.0, -1e16] * 1000
    assert moments_of(values).mean() == 1 / 3


def test_the_ends_of_the_float_range_stay_finite():
    moments = moments_of([1.7e308, 1.7e308, -1.7e308])
    assert moments.mean() == pytest.approx(1.7e308 / 3)
    assert moments.std() == pytest.approx(1.7e308 * math.sqrt(8 / 9))


def test_a_value_many_times_is_that_many_values():
    many = Moments()
    many.add(0.1, 1000)
    assert many == moments_of([0.1] * 1000)


@settings(deadline=None)
@given(st.integers())
def test_long_numbers_come_back_from_their_text(value: int):
    assert unpack(pack(value)) == value


@settings(deadline=None)
@given(st.integers(1, 10**400), st.integers(1, 10**400))
def test_roots_of_ratios_beyond_the_float_range(numerator: int, denominator: int):
    exact = Fraction(numerator, denominator)
    found = root_of_ratio(numerator, denominator)
    assert abs(Fraction(found) ** 2 / exact - 1) < 1e-14
