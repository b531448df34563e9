"""Intervals and spreads as `eval info` shows them, made of what the platform sends."""

from __future__ import annotations

from typing import Any

from osmosis.cli.evals.certainty_view import certainty_rows, spread_sections
from osmosis.cli.evals.histogram_view import histogram_section
from osmosis.metrics import SampleOutcome, summarize
from osmosis.metrics.documents import results_document


def results(samples: list[SampleOutcome], n: int) -> dict[str, Any]:
    summary = summarize(samples, pass_threshold=1.0, n=n)
    return results_document(summary, sampled_rows=10, total_dataset_rows=100)


def test_one_run_per_row_shows_intervals_alone():
    samples = [SampleOutcome(i, 0, "success", float(i % 2), tokens=100 + i) for i in range(10)]
    assert certainty_rows(results(samples, 1)) == [
        ("95% interval", "pass rate 23.7% to 76.3%, reward 0.1230 to 0.8770")
    ]


def test_several_runs_per_row_say_that_they_are_clustered_and_show_how_often_all_pass():
    samples = [
        SampleOutcome(i // 2, i % 2, "success", 1.0 if i % 4 else 0.0, duration_ms=900.0 + i * 100)
        for i in range(20)
    ]
    rows = dict(certainty_rows(results(samples, 2)))
    assert rows["Rests on"] == "20 samples of 10 rows, clustered by row"
    assert rows["Pass^k (all pass)"] == "k=1 75.0%  k=2 50.0%"
    spread = dict(spread_sections(results(samples, 2))[0].rows)
    assert spread == {"Duration": "mean 1.9 s  p50 1.9 s  p95 2.7 s  p99 2.8 s  max 2.8 s"}


def test_custom_metrics_are_named_with_how_many_samples_have_them():
    samples = [SampleOutcome(0, 0, "success", 1.0, metrics={"turns": 3.0})]
    (section,) = spread_sections(results(samples, 1))
    assert section.title == "Metrics"
    assert section.rows == [
        ("turns", "mean 3.0000  std 0.0000  min 3.0000  max 3.0000  in 1 sample")
    ]


def test_a_run_of_a_platform_that_sends_none_of_it_shows_none_of_it():
    assert certainty_rows({"pass_rate": 0.5}) == []
    assert spread_sections({}) == []


def test_a_bar_says_how_many_of_its_rewards_pass():
    section = histogram_section({"low": 0.0, "high": 1.0, "counts": [3, 0, 2, 4]}, 5)
    assert section is not None
    said = [value.lstrip("# ") for _, value in section.rows]
    assert said == ["3", "2 1 pass", "4 pass"]
    none = histogram_section({"low": 0.0, "high": 1.0, "counts": [1, 0, 0, 4]}, 0)
    assert none is not None and not any("pass" in value for _, value in none.rows)
