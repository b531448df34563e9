"""Values in bounded room: exact while few, within the stated accuracy beyond."""

from __future__ import annotations

import json
import random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis.metrics import distribution
from osmosis.metrics.distribution import ACCURACY, EXACT_VALUES, MAX_BINS, Distribution

SHARES = [0.0, 0.05, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0]


def distribution_of(values: list[float]) -> Distribution:
    made = Distribution()
    for value in values:
        made.add(value)
    return made


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_few_values_have_the_quantiles_of_numpy(values: list[float]):
    found = distribution_of(values).quantiles(SHARES)
    assert found == pytest.approx(numpy.quantile(values, SHARES), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", ["lognormal", "mixed signs", "uniform"])
def test_many_values_have_them_within_the_stated_accuracy(kind: str):
    generator = numpy.random.default_rng(7)
    values = {
        "lognormal": generator.lognormal(5, 2, 20_000),
        "mixed signs": generator.normal(0, 3, 20_000),
        "uniform": generator.uniform(0, 1, 20_000),
    }[kind].tolist()
    made = distribution_of(values)
    assert not made.exact
    for share, found in zip(SHARES, made.quantiles(SHARES), strict=True):
        below = numpy.quantile(values, share, method="lower")
        above = numpy.quantile(values, share, method="higher")
        room = ACCURACY * 1.001
        assert below - abs(below) * room <= found <= above + abs(above) * room
    assert made.quantiles([0.0, 1.0]) == pytest.approx([min(values), max(values)], rel=0.01)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e300, 1e300), max_size=60), st.integers())
def test_neither_order_nor_storing_in_between_changes_anything(values: list[float], seed: int):
    shuffled = list(values)
    random.Random(seed).shuffle(shuffled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distribution, "EXACT_VALUES", 8)
        patch.setattr(distribution, "MAX_BINS", 16)
        straight, broken = distribution_of(values), Distribution()
        for value in shuffled:
            broken.add(value)
            broken = Distribution.load(json.loads(json.dumps(broken.dump(), allow_nan=False)))
        assert broken == straight
        assert sum(count for _, count in straight.weighted()) == len(values)


def test_values_over_the_whole_range_of_floats_take_bounded_room():
    generator = random.Random(3)
    values = [generator.choice([-1, 1]) * 10 ** generator.uniform(-307, 307) for _ in range(20_000)]
    made = distribution_of(values)
    assert len(made.bins) <= MAX_BINS and made.merges
    exact = sorted(values)[15_000]
    assert made.quantiles([0.75])[0] == pytest.approx(exact, rel=ACCURACY * 2 ** (made.merges + 1))
    assert len(json.dumps(made.dump())) < 40_000


def test_it_is_exact_up_to_the_bound_and_says_when_no_longer():
    values = [i / 1000 for i in range(EXACT_VALUES)]
    made = distribution_of(values * 3)
    assert made.exact and made.quantiles([0.5]) == [numpy.median(values)]
    made.add(99.0)
    assert not made.exact and made.count == 3 * EXACT_VALUES + 1


def test_zero_and_minus_zero_are_one_value():
    assert distribution_of([0.0, -0.0]).values == {0.0: 2}
