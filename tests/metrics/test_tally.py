"""Counting sample by sample: what comes out depends on the samples alone."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis.metrics import (
    RowTotals,
    SampleOutcome,
    Tally,
    distribution,
    summarize,
    summary_of,
    tally,
    tally_of,
)
from osmosis.metrics.documents import dump_summary, load_summary

THRESHOLD = 0.5


def sample_of(index: int, n: int, cell: tuple[Any, ...]) -> SampleOutcome:
    status, reward, tokens, error, cost, latencies, metrics = cell
    return SampleOutcome(
        index // n, index % n, status, reward, tokens, error,
        duration_ms=float(index), queue_ms=0.5, cost_usd=cost, latencies_ms=latencies,
        metrics=metrics,
    )  # fmt: skip


cells = st.tuples(
    st.sampled_from(["success", "failed", "skipped"]),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.integers(0, 10_000),
    st.sampled_from([None, "timeout", "agent_error", "http_error", "surprise"]),
    st.none() | st.floats(0, 1),
    st.lists(st.floats(0, 1e6), max_size=3),
    st.dictionaries(st.sampled_from("abcdef"), st.floats(-10, 10), max_size=3),
)


def counted_one_by_one(samples: Iterable[SampleOutcome], n: int) -> Tally:
    """As the platform does it: stored after each batch, rows taken out and put back."""
    made, rows = Tally(THRESHOLD, n), dict[int, RowTotals]()
    for sample in samples:
        made = Tally.load(json.loads(json.dumps(made.dump(), allow_nan=False)))
        made.add(sample)
        if n >= 2:
            before = rows.get(sample.row_index, RowTotals())
            made.take_row(before)
            after = before.plus(sample.status, sample.error_type, sample.reward, THRESHOLD)
            made.put_row(after)
            rows[sample.row_index] = after
    return made


@settings(max_examples=120, deadline=None)
@given(st.lists(cells, max_size=30), st.integers(1, 4), st.integers())
def test_incremental_equals_recomputed_in_any_order(
    given_cells: list[tuple[Any, ...]], n: int, seed: int
):
    samples = [sample_of(index, n, cell) for index, cell in enumerate(given_cells)]
    shuffled = list(samples)
    random.Random(seed).shuffle(shuffled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distribution, "EXACT_VALUES", 6)
        patch.setattr(tally, "MAX_METRICS", 3)
        patch.setattr(tally, "MAX_ERROR_TYPES", 2)
        recomputed = tally_of(samples, pass_threshold=THRESHOLD, n=n)
        incremental = counted_one_by_one(shuffled, n)
        assert incremental == recomputed
        summary = summary_of(incremental)
        assert summary == summary_of(recomputed)
    stored = json.loads(json.dumps(dump_summary(summary), allow_nan=False))
    assert load_summary(stored) == summary


@settings(max_examples=60, deadline=None)
@given(st.lists(cells, max_size=30))
def test_rows_in_are_rows_out(given_cells: list[tuple[Any, ...]]):
    samples = [sample_of(index, 1, cell) for index, cell in enumerate(given_cells)]
    summary = summarize(samples, pass_threshold=THRESHOLD, n=1)
    successes = sum(sample.status == "success" for sample in samples)
    assert summary.total_samples == len(samples)
    assert successes + summary.failed + summary.skipped == len(samples)
    assert sum(summary.errors.values()) == sum(s.error_type is not None for s in samples)
    if samples:
        assert summary.spreads["duration_ms"].count == len(samples)


def test_the_median_of_more_rewards_than_a_tally_holds_is_still_exact():
    rewards = [random.Random(1).random() for _ in range(5001)]
    samples = [SampleOutcome(i, 0, "success", reward) for i, reward in enumerate(rewards)]
    summary = summarize(samples, pass_threshold=0.5, n=1)
    assert summary.reward_stats is not None and summary.histogram is not None
    assert summary.reward_stats.median == sorted(rewards)[2500]
    assert summary.passed == sum(reward >= 0.5 for reward in rewards)
    assert sum(summary.histogram.counts) == 5001


def test_the_names_that_user_code_makes_up_take_bounded_room():
    samples = [
        SampleOutcome(i, 0, "failed", None, error_type=f"kind_{i:04}", metrics={f"m{i:04}": 1.0})
        for i in range(1000)
    ]
    made = tally_of(reversed(samples), pass_threshold=1.0, n=1)
    assert made == tally_of(samples, pass_threshold=1.0, n=1)
    summary = summary_of(made)
    assert len(summary.errors) == tally.MAX_ERROR_TYPES + 1
    assert summary.errors["other"] == 1000 - tally.MAX_ERROR_TYPES
    assert len(summary.metrics) == tally.MAX_METRICS
    assert summary.total_samples == summary.failed == 1000


def test_custom_metrics_are_averaged_over_the_samples_that_have_them():
    samples = [
        SampleOutcome(0, 0, "success", 1.0, metrics={"turns": 2.0, "exact": 1.0}),
        SampleOutcome(1, 0, "success", 0.0, metrics={"turns": 4.0}),
        SampleOutcome(2, 0, "failed", None),
    ]
    metrics = summarize(samples, pass_threshold=1.0, n=1).metrics
    assert vars(metrics["turns"]) == {"count": 2, "mean": 3.0, "std": 1.0, "min": 2.0, "max": 4.0}
    assert metrics["exact"].count == 1


def test_an_unknown_cost_is_no_zero():
    samples = [
        SampleOutcome(0, 0, "success", 1.0, cost_usd=0.25),
        SampleOutcome(1, 0, "success", 1.0, cost_usd=None),
    ]
    cost = summarize(samples, pass_threshold=1.0, n=1).spreads["cost_usd"]
    assert (cost.count, cost.mean, cost.min) == (1, 0.25, 0.25)


def test_the_latency_of_calls_is_spread_over_calls():
    samples = [
        SampleOutcome(0, 0, "success", 1.0, latencies_ms=[100.0, 300.0]),
        SampleOutcome(1, 0, "success", 1.0, latencies_ms=[200.0]),
    ]
    latency = summarize(samples, pass_threshold=1.0, n=1).spreads["latency_ms"]
    assert (latency.count, latency.p50, latency.max) == (3, 200.0, 300.0)


def test_a_summary_of_earlier_definitions_is_not_taken_for_one_of_these():
    stored = dump_summary(summarize([], pass_threshold=1.0, n=1))
    assert load_summary(stored) is not None
    assert load_summary({**stored, "definition_version": 1}) is None
    del stored["definition_version"]
    assert load_summary(stored) is None


@settings(max_examples=120, deadline=None)
@given(st.lists(cells, max_size=40), st.integers(1, 3), st.integers())
def test_what_was_counted_apart_adds_up_to_the_whole(
    given_cells: list[tuple[Any, ...]], n: int, seed: int
):
    samples = [sample_of(index, n, cell) for index, cell in enumerate(given_cells)]
    chance = random.Random(seed)
    first_rows = {row for row in range(len(samples)) if chance.random() < 0.5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distribution, "EXACT_VALUES", 4)
        patch.setattr(distribution, "MAX_BINS", 6)
        patch.setattr(tally, "MAX_METRICS", 3)
        patch.setattr(tally, "MAX_ERROR_TYPES", 2)
        parts = [
            tally_of(
                [s for s in samples if (s.row_index in first_rows) is first],
                pass_threshold=THRESHOLD,
                n=n,
            )
            for first in (True, False)
        ]
        whole = Tally(THRESHOLD, n)
        for part in parts:
            whole.take_in(Tally.load(json.loads(json.dumps(part.dump()))))
        assert whole == tally_of(samples, pass_threshold=THRESHOLD, n=n)
