"""The shapes in which the metrics cross HTTP and land in files (platform-api.md §3.4, §4.3).

pass@k is a map inside ``results.reward_stats`` and a list everywhere else; the documented client
reads both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osmosis.metrics.histogram import Histogram
from osmosis.metrics.pass_at_k import PassAtK
from osmosis.metrics.summary import RewardStats, Summary


def results_document(
    summary: Summary, *, sampled_rows: int, total_dataset_rows: int
) -> dict[str, Any]:
    """``results`` of a run's detail and list item."""
    results: dict[str, Any] = {
        "pass_rate": summary.pass_rate,
        "pass_threshold": summary.pass_threshold,
        "graded": summary.graded,
        "passed": summary.passed,
        "failed": summary.failed,
        "skipped": summary.skipped,
        "total_runs": summary.total_samples,
        "sampled_rows": sampled_rows,
        "total_dataset_rows": total_dataset_rows,
        "total_tokens": summary.tokens_used,
        "infrastructure_failures": summary.infrastructure_failures,
        "errors": summary.errors,
    }
    if summary.clean_pass_rate is not None:
        results["clean_pass_rate"] = summary.clean_pass_rate
    if summary.reward_stats is not None:
        results["score"] = summary.reward_stats.mean
        results["reward_stats"] = summary.reward_stats._asdict()
        if summary.pass_at_k:
            results["reward_stats"]["pass_at_k"] = {str(k): v for k, v in summary.pass_at_k}
    return results


def metrics_document(summary: Summary, *, status: str, duration_ms: float | None) -> dict[str, Any]:
    """The body of ``GET …/metrics``."""
    overview = overview_document(summary)
    if duration_ms is not None:
        overview["duration_ms"] = duration_ms
    stats = summary.reward_stats
    return {
        "status": status,
        "overview": overview,
        "reward_stats": stats._asdict() if stats else None,
        "pass_at_k": _points(summary),
    }


def metrics_file(summary: Summary, *, eval_run: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of ``metrics.json``; ``eval_run`` names the run, absent values left out."""
    body = overview_document(summary)
    if summary.reward_stats is not None:
        body["reward_stats"] = summary.reward_stats._asdict()
    if summary.n_runs >= 2:
        body["n_runs"] = summary.n_runs
    if summary.pass_at_k:
        body["pass_at_k"] = _points(summary)
    return {
        "eval_run": {key: value for key, value in eval_run.items() if value is not None},
        "summary": body,
    }


def overview_document(summary: Summary) -> dict[str, Any]:
    """The counts and rates, flat."""
    overview: dict[str, Any] = {
        "total_samples": summary.total_samples,
        "completed_samples": summary.completed_samples,
        "graded": summary.graded,
        "passed": summary.passed,
        "failed": summary.failed,
        "skipped": summary.skipped,
        "pass_rate": summary.pass_rate,
        "pass_threshold": summary.pass_threshold,
        "tokens_used": summary.tokens_used,
        "infrastructure_failures": summary.infrastructure_failures,
    }
    if summary.clean_pass_rate is not None:
        overview["clean_pass_rate"] = summary.clean_pass_rate
    return overview


def dump_summary(summary: Summary) -> dict[str, Any]:
    """A summary as plain JSON, to be stored; :func:`load_summary` reads it back."""
    stored = dict(vars(summary))
    stored["reward_stats"] = summary.reward_stats and summary.reward_stats._asdict()
    stored["pass_at_k"] = [list(point) for point in summary.pass_at_k]
    stored["histogram"] = summary.histogram and dict(vars(summary.histogram))
    return stored


def load_summary(stored: Mapping[str, Any]) -> Summary:
    """The summary that :func:`dump_summary` wrote."""
    stats, bars = stored["reward_stats"], stored["histogram"]
    values: dict[str, Any] = {**stored}
    values["reward_stats"] = RewardStats(**stats) if stats else None
    values["pass_at_k"] = tuple(PassAtK(k, value) for k, value in stored["pass_at_k"])
    values["histogram"] = (
        Histogram(bars["low"], bars["high"], tuple(bars["counts"])) if bars else None
    )
    return Summary(**values)


def _points(summary: Summary) -> list[dict[str, Any]]:
    return [point._asdict() for point in summary.pass_at_k]
