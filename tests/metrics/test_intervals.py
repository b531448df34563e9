"""Intervals, held to numbers worked by hand and to scipy and statsmodels."""

from __future__ import annotations

import math

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.proportion import proportion_confint

from osmosis.metrics import SampleOutcome, Summary, summarize, wilson
from osmosis.metrics.intervals import mean_estimate, rate_estimate

CLOSE = 1e-9


def outcomes(rewards: list[list[float | None]]) -> list[SampleOutcome]:
    """Rows of runs; None is a failed sample."""
    return [
        SampleOutcome(row, run, "failed" if reward is None else "success", reward)
        for row, runs in enumerate(rewards)
        for run, reward in enumerate(runs)
    ]


def summary_of_rows(rewards: list[list[float | None]], threshold: float = 1.0) -> Summary:
    n = max(map(len, rewards))
    return summarize(outcomes(rewards), pass_threshold=threshold, n=n)


@pytest.mark.parametrize(("passed", "total"), [(0, 1), (0, 10), (3, 10), (10, 10), (4711, 99_999)])
def test_wilson_agrees_with_statsmodels(passed: int, total: int):
    expected = proportion_confint(passed, total, method="wilson")
    assert wilson(passed, total) == pytest.approx(expected, abs=CLOSE)


def test_wilson_of_one_in_ten_worked_by_hand():
    # z = 1.959964: centre (0.1 + z²/20) / (1 + z²/10), reach z √(0.009 + z²/400) / (1 + z²/10).
    z2 = 3.841458820694124
    centre, scale = 0.1 + z2 / 20, 1 + z2 / 10
    reach = math.sqrt(z2) * math.sqrt(0.1 * 0.9 / 10 + z2 / 400)
    assert wilson(1, 10) == pytest.approx(((centre - reach) / scale, (centre + reach) / scale))
    assert wilson(0, 0) == (0.0, 1.0)


def test_one_run_per_row_gives_the_ordinary_standard_error_and_t():
    rewards = [0.0, 0.25, 0.5, 1.0, 1.0, 0.75]
    score = summary_of_rows([[reward] for reward in rewards]).intervals["score"]
    assert score.standard_error == pytest.approx(stats.sem(rewards), abs=CLOSE)
    low, high = stats.t.interval(0.95, 5, loc=numpy.mean(rewards), scale=stats.sem(rewards))
    assert (score.low, score.high) == pytest.approx((low, high), abs=CLOSE)
    assert (score.method, score.samples, score.clusters) == ("t", 6, 6)


def test_equally_many_runs_per_row_give_the_standard_error_of_the_row_means():
    rewards: list[list[float | None]] = [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0.5, 0, 1]]
    score = summary_of_rows(rewards).intervals["score"]
    means = numpy.mean(numpy.array(rewards, dtype=float), axis=1)
    assert score.standard_error == pytest.approx(stats.sem(means), abs=CLOSE)
    assert (score.method, score.samples, score.clusters) == ("t-clustered", 12, 4)


def test_a_clustered_standard_error_worked_by_hand():
    # Two rows: rewards 1, 1 and 0, 1. The mean is 3/4; residual sums are +1/2 and -1/2;
    # √(2/(2-1) · (1/4 + 1/4)) / 4 = 1/4.
    score = summary_of_rows([[1.0, 1.0], [0.0, 1.0]]).intervals["score"]
    assert score.standard_error == 0.25
    assert score.high - score.value == pytest.approx(0.25 * stats.t.ppf(0.975, 1), abs=CLOSE)


def test_rows_of_unequal_size_agree_with_statsmodels():
    generator = numpy.random.default_rng(5)
    rows: list[list[float | None]] = []
    for _ in range(40):
        ability = generator.uniform()
        size = int(generator.integers(1, 5))
        rows.append([float(generator.uniform() < ability) for _ in range(size)])
    rows.append([0.3, 0.6, 0.9, 1.0])
    flat = [(row, reward) for row, runs in enumerate(rows) for reward in runs]
    groups, rewards = zip(*flat, strict=True)
    fitted = OLS(rewards, numpy.ones(len(rewards))).fit(
        cov_type="cluster", cov_kwds={"groups": groups}, use_t=True
    )
    summary = summary_of_rows(rows, threshold=0.8)
    score = summary.intervals["score"]
    assert score.standard_error == pytest.approx(fitted.bse[0], abs=CLOSE)
    assert (score.low, score.high) == pytest.approx(tuple(fitted.conf_int()[0]), abs=CLOSE)
    passes = [float(reward >= 0.8) for reward in rewards]
    fitted = OLS(passes, numpy.ones(len(passes))).fit(
        cov_type="cluster", cov_kwds={"groups": groups}
    )
    rate = summary.intervals["pass_rate"]
    assert rate.standard_error == pytest.approx(fitted.bse[0], abs=CLOSE)
    effective = rate.value * (1 - rate.value) / fitted.bse[0] ** 2
    expected = proportion_confint(rate.value * effective, effective, method="wilson")
    assert (rate.low, rate.high) == pytest.approx(expected, abs=CLOSE)


def test_rows_that_all_pass_count_as_rows_and_not_as_samples():
    rate = summary_of_rows([[1.0] * 10] * 5).intervals["pass_rate"]
    assert (rate.low, rate.high) == pytest.approx(proportion_confint(5, 5, method="wilson"))
    assert (rate.value, rate.samples, rate.clusters) == (1.0, 50, 5)


def test_the_clean_rate_has_its_interval_over_what_is_left():
    samples = [
        *outcomes([[1.0], [0.0], [1.0]]),
        SampleOutcome(3, 0, "failed", None, error_type="timeout"),
    ]
    intervals = summarize(samples, pass_threshold=1.0, n=1).intervals
    assert intervals["clean_pass_rate"].samples == 3
    assert intervals["pass_rate"].samples == 4
    assert intervals["clean_pass_rate"][1:3] == pytest.approx(
        proportion_confint(2, 3, method="wilson")
    )


def test_the_clean_rate_leaves_out_broken_samples_of_a_row_with_others():
    samples = [
        SampleOutcome(0, 0, "success", 1.0),
        SampleOutcome(0, 1, "failed", None, error_type="timeout"),
        SampleOutcome(1, 0, "failed", None, error_type="timeout"),
        SampleOutcome(1, 1, "failed", None, error_type="timeout"),
        SampleOutcome(2, 0, "success", 0.0),
        SampleOutcome(2, 1, "success", 0.0),
    ]
    clean = summarize(samples, pass_threshold=1.0, n=2).intervals["clean_pass_rate"]
    assert (clean.value, clean.samples, clean.clusters) == (1 / 3, 3, 2)


def test_one_row_alone_has_no_interval_of_its_mean():
    assert "score" not in summary_of_rows([[1.0, 0.0, 1.0]]).intervals
    assert mean_estimate(1.0, 1, 1, None) is None
    assert rate_estimate(0, 0, 0, 0.0) is None


def test_intervals_of_rewards_at_the_ends_of_the_float_range_stay_finite():
    score = summary_of_rows([[1.7e308], [-1.7e308]]).intervals["score"]
    assert all(map(math.isfinite, (score.low, score.high, score.standard_error or 0.0)))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.lists(st.none() | st.sampled_from([0.0, 0.3, 1.0]), min_size=1, max_size=4),
        min_size=1,
        max_size=12,
    )
)
def test_an_interval_holds_its_value(rows: list[list[float | None]]):
    for estimate in summary_of_rows(rows).intervals.values():
        assert estimate.low <= estimate.value <= estimate.high
        assert 1 <= estimate.clusters <= estimate.samples
    rate = summary_of_rows(rows).intervals["pass_rate"]
    assert rate.low >= 0.0 and rate.high <= 1.0
