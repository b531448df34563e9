"""The summary, held to hand-worked numbers, to the statistics module and to its own laws."""

from __future__ import annotations

import json
import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis.metrics import SampleOutcome, Summary, summarize
from osmosis.metrics.documents import (
    dump_summary,
    load_summary,
    metrics_document,
    metrics_file,
    results_document,
)

GOLDEN = [
    SampleOutcome(0, 0, "success", 1.0, 100),
    SampleOutcome(0, 1, "success", 0.0, 110),
    SampleOutcome(1, 0, "success", 0.5, 90),
    SampleOutcome(1, 1, "failed", None, None, "timeout"),
    SampleOutcome(2, 0, "failed", 1.0, 10, "workflow_failed"),
    SampleOutcome(2, 1, "skipped", None, 7),
    SampleOutcome(3, 0, "success", 1.0, 50),
    SampleOutcome(3, 1, "success", 1.0, 60),
]

outcomes = st.lists(
    st.tuples(
        st.sampled_from(["success", "failed", "skipped"]),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.integers(0, 10_000),
        st.sampled_from([None, "timeout", "agent_error", "http_error", "surprise"]),
    ),
    max_size=40,
).map(
    lambda cells: [
        SampleOutcome(index // 3, index % 3, status, reward, tokens, error)
        for index, (status, reward, tokens, error) in enumerate(cells)
    ]
)


def test_the_golden_run_has_the_documented_numbers() -> None:
    summary = summarize(GOLDEN, pass_threshold=1.0, n=2)
    assert summary.total_samples == 8
    assert summary.skipped == 1
    assert summary.completed_samples == 7
    assert summary.failed == 2
    assert summary.graded == 6
    assert summary.passed == 4, "a failed sample that kept its reward can pass"
    assert summary.pass_rate == 4 / 7
    assert summary.tokens_used == 427, "skipped samples' tokens count"
    assert summary.reward_stats is not None
    assert summary.reward_stats.mean == pytest.approx(4.5 / 6)
    assert summary.reward_stats.median == 1.0
    assert summary.reward_stats.std == pytest.approx(statistics.pstdev([1, 0, 0.5, 1, 1, 1]))
    assert (summary.reward_stats.min, summary.reward_stats.max) == (0.0, 1.0)
    # Rows (attempts, passes): (2,1) (2,0) (1,1) (2,2).
    assert summary.pass_at_k == ((1, (0.5 + 0 + 1 + 1) / 4), (2, (1 + 0 + 1) / 3))


def test_the_clean_rate_leaves_out_what_was_not_the_agents_doing() -> None:
    summary = summarize(GOLDEN, pass_threshold=1.0, n=2)
    assert summary.infrastructure_failures == 1
    assert summary.clean_pass_rate == 4 / 6
    assert summary.errors == {"timeout": 1, "workflow_failed": 1}


def test_an_empty_run_has_a_pass_rate_of_zero_and_no_reward() -> None:
    summary = summarize([], pass_threshold=1.0, n=1)
    assert summary.pass_rate == 0.0
    assert summary.clean_pass_rate is None
    assert summary.reward_stats is None
    assert summary.pass_at_k == ()
    results = results_document(summary, sampled_rows=3, total_dataset_rows=30)
    assert "score" not in results and "reward_stats" not in results


def test_a_threshold_of_zero_passes_every_graded_sample_that_is_not_negative() -> None:
    samples = [SampleOutcome(i, 0, "success", reward) for i, reward in enumerate([0.0, -0.1, 2])]
    assert summarize(samples, pass_threshold=0.0, n=1).passed == 2


def test_rewards_at_the_ends_of_the_float_range_stay_finite() -> None:
    huge = [1.7e308, 1.7e308, -1.7e308]
    samples = [SampleOutcome(i, 0, "success", reward) for i, reward in enumerate(huge)]
    stats = summarize(samples, pass_threshold=1.0, n=1).reward_stats
    assert stats is not None
    assert all(math.isfinite(value) for value in stats)
    assert stats.median == 1.7e308


def test_pass_at_k_is_a_map_in_results_and_a_list_in_metrics() -> None:
    summary = summarize(GOLDEN, pass_threshold=1.0, n=2)
    results = results_document(summary, sampled_rows=4, total_dataset_rows=40)
    assert results["total_runs"] == 8 and results["sampled_rows"] == 4
    assert set(results["reward_stats"]["pass_at_k"]) == {"1", "2"}
    metrics = metrics_document(summary, status="finished", duration_ms=12.5)
    assert [point["k"] for point in metrics["pass_at_k"]] == [1, 2]
    assert metrics["overview"]["duration_ms"] == 12.5
    document = metrics_file(summary, eval_run={"id": "x", "completed_at": None})
    assert document["eval_run"] == {"id": "x"}
    assert document["summary"]["n_runs"] == 2
    assert [point["k"] for point in metrics["pass_hat_k"]] == [1, 2]
    assert set(results["pass_hat_k"]) == {"1", "2"}
    for shape in (results, metrics, document["summary"]):
        assert shape["definition_version"] == 2
        assert set(shape["intervals"]) == {"pass_rate", "clean_pass_rate", "score"}


def test_a_stored_summary_reads_back_equal() -> None:
    summary = summarize(GOLDEN, pass_threshold=1.0, n=2)
    assert load_summary(json.loads(json.dumps(dump_summary(summary)))) == summary


@settings(max_examples=150, deadline=None)
@given(samples=outcomes, seed=st.integers())
def test_the_order_of_samples_changes_no_number(samples: list[SampleOutcome], seed: int) -> None:
    shuffled = list(samples)
    random.Random(seed).shuffle(shuffled)
    first = summarize(samples, pass_threshold=0.5, n=3)
    assert first == summarize(shuffled, pass_threshold=0.5, n=3)
    json.dumps(dump_summary(first), allow_nan=False)
    _check_laws(first)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_reward_statistics_agree_with_the_statistics_module(rewards: list[float]) -> None:
    samples = [SampleOutcome(i, 0, "success", reward) for i, reward in enumerate(rewards)]
    stats = summarize(samples, pass_threshold=0.5, n=1).reward_stats
    assert stats is not None
    assert stats.mean == pytest.approx(statistics.fmean(rewards), abs=1e-9)
    assert stats.median == pytest.approx(statistics.median(rewards), abs=1e-9)
    assert stats.std == pytest.approx(statistics.pstdev(rewards), rel=1e-6, abs=1e-6)


def _check_laws(summary: Summary) -> None:
    assert summary.completed_samples + summary.skipped == summary.total_samples
    assert summary.passed <= summary.graded <= summary.completed_samples
    assert 0.0 <= summary.pass_rate <= 1.0
    if summary.histogram is not None:
        assert sum(summary.histogram.counts) == summary.graded
    if summary.reward_stats is not None:
        stats = summary.reward_stats
        assert stats.min <= stats.mean <= stats.max
        assert stats.min <= stats.median <= stats.max
    values = [point.value for point in summary.pass_at_k]
    assert all(0.0 <= value <= 1.0 for value in values)
