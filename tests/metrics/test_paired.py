"""Paired differences, held to published examples, to hand-worked cases and to scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from osmosis.metrics import paired
from osmosis.metrics.paired import (
    bca_of,
    flip_p_value,
    mcnemar_mid_p,
    paired_means,
    paired_rate_interval,
    paired_rates,
    resampled_means,
)
from osmosis.metrics.several import holm

CLOSE = 1e-9


def verdicts(both: int, fixed: int, broken: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether each row passes before and after."""
    before = [True] * both + [False] * fixed + [True] * broken + [False] * neither
    after = [True] * both + [True] * fixed + [False] * broken + [False] * neither
    return np.array(before), np.array(after)


def test_the_published_example_of_the_mid_p_value():
    # Fagerland, Lydersen and Laake 2013: 1 and 7 changed; exact 0.0703, mid-p 0.0391.
    assert mcnemar_mid_p(1, 7) == mcnemar_mid_p(7, 1) == pytest.approx(0.0390625, abs=CLOSE)


@pytest.mark.parametrize(
    ("fixed", "broken"), [(0, 0), (0, 1), (3, 3), (12, 5), (40, 80), (700, 800), (30_000, 30_200)]
)
def test_the_mid_p_value_agrees_with_scipy_and_the_exact_one_of_statsmodels(
    fixed: int, broken: int
):
    changed, fewer = fixed + broken, min(fixed, broken)
    exact = 2 * stats.binom.cdf(fewer, changed, 0.5)
    point = stats.binom.pmf(fewer, changed, 0.5)
    expected = min(1.0, exact - point) if changed else 1.0
    assert mcnemar_mid_p(fixed, broken) == pytest.approx(expected, abs=CLOSE)
    if fixed != broken:
        table = [[0, fixed], [broken, 0]]
        of_statsmodels = mcnemar(table, exact=True).pvalue
        assert mcnemar_mid_p(fixed, broken) == pytest.approx(of_statsmodels - point, abs=CLOSE)


def test_a_paired_rate_interval_worked_by_hand():
    # 8 fixed, 2 broken of 30: p = 9/32 and 3/32, their difference 6/32.
    z = stats.norm.ppf(0.975)
    reach = z * math.sqrt((12 / 32 - (6 / 32) ** 2) / 32)
    assert paired_rate_interval(8, 2, 30) == pytest.approx((6 / 32 - reach, 6 / 32 + reach))


def test_pass_and_fail_on_the_same_rows():
    found = paired_rates(*verdicts(both=10, fixed=7, broken=1, neither=3))
    assert found is not None
    assert found.value == pytest.approx(6 / 21)
    assert found.p_value == pytest.approx(0.0390625)
    assert found.significant and (found.rows, found.clusters) == (21, 21)
    assert found.low is not None and found.high is not None
    assert found.low < found.value < found.high
    assert paired_rates(np.array([], dtype=bool), np.array([], dtype=bool)) is None


def test_pairing_finds_what_an_unpaired_test_misses():
    """The case for pairing: the same two rates, 0.08 unpaired, far below 0.05 paired."""
    before, after = verdicts(both=60, fixed=16, broken=4, neither=20)
    unpaired = stats.ttest_ind(before, after).pvalue
    found = paired_rates(before, after)
    assert found is not None and found.p_value is not None
    assert unpaired > 0.05 > 0.01 > found.p_value


@pytest.mark.parametrize("size", [3, 8, 12])
def test_the_permutation_of_few_rows_tries_every_assignment(size: int):
    differences = np.random.default_rng(size).normal(0.4, 1, size)
    sums = [sum(s * d for s, d in zip(signs, differences, strict=True))
            for signs in itertools.product([1, -1], repeat=size)]  # fmt: skip
    expected = np.mean(np.abs(sums) >= abs(differences.sum()) * (1 - 1e-12))
    assert flip_p_value(differences) == pytest.approx(expected, abs=CLOSE)
    of_scipy = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf
    )
    assert flip_p_value(differences) == pytest.approx(of_scipy.pvalue, abs=CLOSE)


def test_random_signs_come_near_the_t_test_and_repeat_themselves():
    differences = np.random.default_rng(5).normal(0.15, 1, 200)
    expected = stats.ttest_1samp(differences, 0).pvalue
    assert flip_p_value(differences) == pytest.approx(expected, abs=0.01)
    assert flip_p_value(differences) == flip_p_value(differences)
    assert paired_means(differences) == paired_means(differences)


def test_the_bootstrap_interval_agrees_with_scipy_on_the_same_resamples():
    differences = np.random.default_rng(9).exponential(1, 40)
    ones = np.ones(40)
    means = resampled_means(differences, ones, seed=1, resamples=4000)
    made = stats.bootstrap(
        (differences,), np.mean, n_resamples=0, method="BCa",
        bootstrap_result=stats._resampling.BootstrapResult(None, means, 0.0),
    )  # fmt: skip
    expected = (made.confidence_interval.low, made.confidence_interval.high)
    assert bca_of(means, differences, ones) == pytest.approx(expected, abs=CLOSE)


def test_the_bootstrap_interval_covers_as_often_as_it_says():
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        found = paired_means(generator.choice([-1.0, 0.0, 0.5, 1.0], 60))
        assert found is not None and found.low is not None and found.high is not None
        hits += found.low <= 0.125 <= found.high
    assert 180 <= hits <= 199


def test_many_rows_take_the_normal_limit_of_the_same():
    differences = np.random.default_rng(1).normal(0.02, 1, 20_000)
    found = paired_means(differences)
    expected = stats.ttest_1samp(differences, 0)
    interval = expected.confidence_interval(0.95)
    assert found is not None
    assert found.p_value == pytest.approx(expected.pvalue, abs=CLOSE)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=CLOSE)


def test_rows_of_one_group_are_resampled_together():
    generator = np.random.default_rng(2)
    shared = np.repeat(generator.normal(0, 1, 30), 10)
    groups = np.repeat(np.arange(30), 10)
    alone, together = paired_means(shared), paired_means(shared, groups)
    assert alone is not None and together is not None
    assert together.value == pytest.approx(alone.value)
    assert (together.rows, together.clusters) == (300, 30)
    widths = [(d.high or 0) - (d.low or 0) for d in (alone, together)]
    assert widths[1] > 2.5 * widths[0]


def test_one_group_alone_has_a_difference_and_no_interval():
    found = paired_means(np.array([0.5, 0.7]), np.array(["a", "a"]))
    assert found is not None and found.value == pytest.approx(0.6)
    assert (found.low, found.high, found.p_value) == (None, None, None)
    assert paired_means(np.array([])) is None


def test_no_difference_anywhere_is_no_difference():
    found = paired_means(np.zeros(50))
    assert found is not None
    assert (found.value, found.low, found.high, found.p_value) == (0.0, None, None, 1.0)


def test_few_rows_that_changed_have_the_interval_of_students_t():
    differences = np.array([0.5, 1.0] + [0.0] * 20)
    found = paired_means(differences)
    interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert found is not None and found.interval == "t"
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=CLOSE)
    assert found.p_value == 0.5, "of four assignments of signs two are as far from zero"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=2, max_size=30))
def test_swapping_the_runs_swaps_the_sign_and_keeps_the_p_value(values: list[float]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired, "RESAMPLES", 200)
        one, other = paired_means(np.array(values)), paired_means(-np.array(values))
    assert one is not None and other is not None
    assert one.value == -other.value
    assert one.p_value == pytest.approx(other.p_value)
    assert one.p_value is None or 0 < one.p_value <= 1
    assert one.low is None or one.high is None or one.low <= one.value <= one.high


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_several_comparisons_are_adjusted_as_statsmodels_does(p_values: list[float]):
    expected = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(list(expected), abs=CLOSE)
