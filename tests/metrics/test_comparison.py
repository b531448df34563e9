"""Two runs on the same rows: what is matched, what changed, what is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from osmosis.metrics.comparison import compare
from osmosis.metrics.intervals import Estimate
from osmosis.metrics.paired import Difference, paired_rate_interval
from osmosis.metrics.regression import judge_regression
from osmosis.metrics.row_table import SampleColumns
from osmosis.metrics.unpaired import welch

NAN = float("nan")


def columns(samples: list[dict[str, Any]]) -> SampleColumns:
    """Samples by (row, run, reward) and what else is said of them."""

    def floats(name: str, default: float) -> np.ndarray:
        return np.array([sample.get(name, default) for sample in samples], dtype=float)

    row = np.array([sample["row"] for sample in samples], dtype=np.int64)
    return SampleColumns(
        source_row=row,
        row_index=row - (row.min() if len(row) else 0),
        run_index=np.array([sample.get("run", 0) for sample in samples], dtype=np.int64),
        skipped=np.array([sample.get("skipped", False) for sample in samples], dtype=bool),
        broken=np.array([sample.get("broken", False) for sample in samples], dtype=bool),
        reward=floats("reward", NAN),
        tokens=floats("tokens", NAN),
        cost_usd=floats("cost", NAN),
        duration_ms=floats("ms", 100.0),
    )


def run_of(rewards: dict[int, float | None], **more: Any) -> SampleColumns:
    """One sample a row; None is a failed one."""
    return columns(
        [
            {"row": row, "reward": NAN if reward is None else reward, **more}
            for row, reward in rewards.items()
        ]
    )


def test_rows_are_matched_by_their_place_in_the_dataset():
    before = run_of({3: 1.0, 5: 0.0, 9: 1.0, 11: 0.0})
    after = run_of({5: 1.0, 9: 0.0, 11: 1.0, 40: 1.0})
    found = compare(before, after, pass_threshold=1.0)
    assert (found.matched, found.only_baseline, found.only_candidate) == (3, 1, 1)
    assert found.pass_rate is not None
    assert (found.pass_rate.baseline, found.pass_rate.candidate) == pytest.approx((1 / 3, 2 / 3))
    assert [row.source_row for row in found.fixed.rows] == [5, 11]
    (broken,) = found.broken.rows
    assert (broken.source_row, broken.baseline, broken.candidate) == (9, (1, 1), (0, 1))
    assert (broken.baseline_sample, broken.candidate_sample) == ((6, 0), (4, 0))


def test_a_failed_sample_is_a_miss_in_the_pass_rate_and_nothing_in_the_score():
    before = run_of({0: 1.0, 1: 1.0, 2: 0.0})
    after = run_of({0: 1.0, 1: None, 2: 0.5})
    found = compare(before, after, pass_threshold=1.0)
    assert found.pass_rate is not None and found.score is not None
    assert found.pass_rate.difference.value == pytest.approx(-1 / 3)
    assert found.score.difference.rows == 2
    assert found.score.difference.value == pytest.approx(0.25)
    assert found.broken.rows[0].candidate_reward is None


def test_what_infrastructure_broke_is_left_out_beside():
    before = run_of(dict.fromkeys(range(10), 1.0))
    after = columns(
        [{"row": row, "reward": 1.0} for row in range(6)]
        + [{"row": row, "broken": True} for row in range(6, 10)]
    )
    found = compare(before, after, pass_threshold=1.0)
    assert found.pass_rate is not None and found.clean_pass_rate is not None
    assert found.pass_rate.difference.value == pytest.approx(-0.4)
    assert found.clean_pass_rate.difference.value == 0.0
    assert found.clean_pass_rate.difference.rows == 6


def test_skipped_samples_take_no_part():
    before = run_of({0: 1.0, 1: 1.0})
    after = columns([{"row": 0, "reward": 0.0, "skipped": True}, {"row": 1, "reward": 1.0}])
    found = compare(before, after, pass_threshold=1.0)
    assert found.matched == 2 and found.broken.count == 0
    assert found.pass_rate is not None and found.pass_rate.difference.rows == 1


def test_one_try_each_is_mcnemars_and_several_are_rows_resampled():
    generator = np.random.default_rng(4)
    once = [{"row": row, "reward": float(generator.integers(0, 2))} for row in range(30)]
    found = compare(columns(once), columns(once), pass_threshold=1.0)
    assert found.pass_rate is not None
    assert found.pass_rate.difference.test == "mcnemar-mid-p"
    assert found.pass_rate.difference.p_value == 1.0
    often = [
        {"row": row, "run": run, "reward": float(generator.integers(0, 2))}
        for row in range(30)
        for run in range(4)
    ]
    found = compare(columns(often), columns(once), pass_threshold=1.0)
    assert found.pass_rate is not None
    assert found.pass_rate.difference.test == "sign-permutation"
    assert (found.pass_rate.difference.rows, found.matched) == (30, 30)


def test_rates_that_no_row_changed_have_the_interval_of_so_many_unchanged_rows():
    often = [{"row": r, "run": n, "reward": float(r % 2)} for r in range(30) for n in range(3)]
    found = compare(columns(often), columns(often), pass_threshold=1.0)
    assert found.pass_rate is not None and found.score is not None
    rate, score = found.pass_rate.difference, found.score.difference
    assert (rate.low, rate.high) == pytest.approx(paired_rate_interval(0, 0, 30))
    assert (score.low, score.high, score.p_value) == (None, None, 1.0)


def test_rows_count_alike_however_many_runs_each_has():
    before = columns([{"row": 0, "run": run, "reward": 1.0} for run in range(9)]
                     + [{"row": 1, "reward": 0.0}])  # fmt: skip
    after = columns([{"row": 0, "reward": 1.0}, {"row": 1, "reward": 1.0}])
    found = compare(before, after, pass_threshold=1.0)
    assert found.pass_rate is not None
    assert (found.pass_rate.baseline, found.pass_rate.candidate) == (0.5, 1.0)


def test_groups_are_looked_up_by_the_row_of_the_dataset():
    before = run_of(dict.fromkeys(range(10, 40), 0.0))
    after = run_of({row: float(row % 3 == 0) for row in range(10, 40)})
    groups = np.arange(50) // 10
    found = compare(before, after, pass_threshold=1.0, groups=groups)
    assert found.pass_rate is not None
    assert found.pass_rate.difference.clusters == 3
    assert found.pass_rate.difference.test == "sign-permutation"


def test_cost_and_time_are_compared_where_both_are_known():
    before = columns([{"row": row, "reward": 1.0, "cost": 0.01, "ms": 100} for row in range(5)])
    after = columns(
        [{"row": row, "reward": 1.0, "ms": 150, **({"cost": 0.03} if row else {})}
         for row in range(5)]
    )  # fmt: skip
    found = compare(before, after, pass_threshold=1.0)
    assert found.cost_usd is not None and found.duration_ms is not None
    assert found.cost_usd.difference.rows == 4
    assert found.cost_usd.difference.value == pytest.approx(0.02)
    assert found.duration_ms.difference.value == pytest.approx(50)
    assert found.tokens is None


def test_the_greatest_changes_come_first_and_the_rest_is_counted():
    before = columns(
        [{"row": row, "run": run, "reward": 0.0} for row in range(8) for run in range(4)]
    )
    after = columns(
        [{"row": row, "run": run, "reward": float(run < row % 5)}
         for row in range(8) for run in range(4)]
    )  # fmt: skip
    found = compare(before, after, pass_threshold=1.0, shown=2)
    assert found.fixed.count == 6
    assert [row.source_row for row in found.fixed.rows] == [4, 3]
    assert [row.candidate for row in found.fixed.rows] == [(4, 4), (3, 4)]


def test_runs_without_a_common_row_have_no_measure():
    found = compare(run_of({0: 1.0}), run_of({1: 1.0}), pass_threshold=1.0)
    assert (found.matched, found.pass_rate, found.score) == (0, None, None)
    nothing = compare(columns([]), columns([]), pass_threshold=1.0)
    assert nothing.matched == nothing.fixed.count == 0


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_swapping_the_runs_mirrors_everything(data: st.DataObject):
    rewards = st.dictionaries(st.integers(0, 12), st.none() | st.sampled_from([0.0, 0.5, 1.0]))
    before, after = run_of(data.draw(rewards)), run_of(data.draw(rewards))
    one = compare(before, after, pass_threshold=1.0)
    other = compare(after, before, pass_threshold=1.0)
    assert one.matched == other.matched
    assert (one.fixed.count, one.broken.count) == (other.broken.count, other.fixed.count)
    if one.pass_rate is not None and other.pass_rate is not None:
        assert one.pass_rate.difference.value == -other.pass_rate.difference.value
        net = one.fixed.count - one.broken.count
        assert one.pass_rate.difference.value == pytest.approx(net / one.matched)


def test_unpaired_runs_are_compared_as_welch_does():
    generator = np.random.default_rng(6)
    first, second = generator.normal(0.5, 0.2, 40), generator.normal(0.6, 0.4, 25)
    estimates = [
        Estimate(float(x.mean()), 0, 0, float(stats.sem(x)), "t", len(x), len(x))
        for x in (first, second)
    ]
    expected = stats.ttest_ind(second, first, equal_var=False)
    interval = expected.confidence_interval()
    found = welch(*estimates)
    assert found == pytest.approx((interval.low, interval.high, expected.pvalue), abs=1e-9)
    assert welch(estimates[0], estimates[1]._replace(standard_error=None)) is None


def test_rewards_at_the_ends_of_the_range_of_floats_are_compared():
    most = 1.7e308
    before = run_of({row: most if row % 2 else -most for row in range(24)})
    after = run_of({row: -most if row % 3 else most for row in range(24)})
    found = compare(before, after, pass_threshold=1.0)
    small = compare(
        run_of({row: 1.7 if row % 2 else -1.7 for row in range(24)}),
        run_of({row: -1.7 if row % 3 else 1.7 for row in range(24)}),
        pass_threshold=1.0,
    )
    assert found.score is not None and small.score is not None
    assert found.score.difference.value == pytest.approx(small.score.difference.value * 1e308)
    assert found.score.difference.p_value == small.score.difference.p_value
    assert all(np.isfinite([found.score.difference.low, found.score.difference.high]))
    assert found.broken.rows[0].baseline_reward == most
    assert (found.pass_rate, found.fixed.count) == (small.pass_rate, small.fixed.count)
    estimates = [Estimate(value, 0, 0, 1.5e308, "t", 9, 9) for value in (-most, most)]
    unpaired = welch(*estimates)
    assert unpaired is not None and np.isfinite(unpaired).all()


@pytest.mark.parametrize(
    ("low", "high", "allowed", "status", "fell"),
    [
        (-0.01, 0.05, 0.02, "held", False),
        (-0.20, -0.05, 0.02, "regressed", True),
        (-0.10, 0.02, 0.02, "unclear", True),
        (-0.04, 0.05, 0.02, "unclear", False),
        (None, None, 0.02, "unclear", False),
    ],
)
def test_a_regression_is_judged_by_the_interval(
    low: float | None, high: float | None, allowed: float, status: str, fell: bool
):
    value = 0.0 if low is None or high is None else (low + high) / 2
    verdict = judge_regression(Difference(value, low, high, 0.1, 9, 9, "t", "t"), allowed)
    assert (verdict.status, verdict.fell) == (status, fell)
    with pytest.raises(ValueError, match="negative"):
        judge_regression(verdict.difference, -0.1)
