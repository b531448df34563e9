"""The shapes in which the metrics cross HTTP and land in files (platform-api.md §3.4, §4.3).

pass@k is a map inside ``results.reward_stats`` and a list everywhere else; the documented client
reads both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osmosis.metrics.histogram import Histogram
from osmosis.metrics.intervals import CONFIDENCE, Estimate
from osmosis.metrics.pass_at_k import PassAtK
from osmosis.metrics.summary import DEFINITION_VERSION, MetricStats, RewardStats, Spread, Summary


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
    if summary.histogram is not None:
        bars = summary.histogram
        results["histogram"] = {"low": bars.low, "high": bars.high, "counts": list(bars.counts)}
    if summary.pass_hat_k:
        results["pass_hat_k"] = {str(k): v for k, v in summary.pass_hat_k}
    return {**results, **certainty_document(summary)}


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
        "pass_at_k": _points(summary.pass_at_k),
        "pass_hat_k": _points(summary.pass_hat_k),
        "errors": summary.errors,
        **certainty_document(summary),
    }


def metrics_file(summary: Summary, *, eval_run: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of ``metrics.json``; ``eval_run`` names the run, absent values left out."""
    body = overview_document(summary)
    if summary.reward_stats is not None:
        body["reward_stats"] = summary.reward_stats._asdict()
    if summary.n_runs >= 2:
        body["n_runs"] = summary.n_runs
    if summary.pass_at_k:
        body["pass_at_k"] = _points(summary.pass_at_k)
        body["pass_hat_k"] = _points(summary.pass_hat_k)
    body = {**body, "errors": summary.errors, **certainty_document(summary)}
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


def certainty_document(summary: Summary) -> dict[str, Any]:
    """What stands beside the documented numbers: intervals, spreads, custom metrics."""
    return {
        "definition_version": summary.definition_version,
        "confidence": CONFIDENCE,
        "intervals": {
            name: estimate_document(estimate) for name, estimate in summary.intervals.items()
        },
        "spreads": {name: dict(vars(spread)) for name, spread in summary.spreads.items()},
        "metrics": {name: dict(vars(stats)) for name, stats in summary.metrics.items()},
    }


def estimate_document(estimate: Estimate) -> dict[str, Any]:
    """An estimate with its interval; a standard error that nobody can tell is left out."""
    return {key: value for key, value in estimate._asdict().items() if value is not None}


def dump_summary(summary: Summary) -> dict[str, Any]:
    """A summary as plain JSON, to be stored; :func:`load_summary` reads it back."""
    stored = dict(vars(summary))
    stored["reward_stats"] = summary.reward_stats and summary.reward_stats._asdict()
    stored["histogram"] = summary.histogram and dict(vars(summary.histogram))
    for name in ("pass_at_k", "pass_hat_k"):
        stored[name] = [list(point) for point in stored[name]]
    stored["intervals"] = {name: e._asdict() for name, e in summary.intervals.items()}
    for name in ("spreads", "metrics"):
        stored[name] = {key: dict(vars(value)) for key, value in stored[name].items()}
    return stored


def load_summary(stored: Mapping[str, Any]) -> Summary | None:
    """The summary that :func:`dump_summary` wrote; None for one of definitions before these."""
    if stored.get("definition_version") != DEFINITION_VERSION:
        return None
    stats, bars = stored["reward_stats"], stored["histogram"]
    values: dict[str, Any] = {**stored}
    values["reward_stats"] = RewardStats(**stats) if stats else None
    values["histogram"] = (
        Histogram(bars["low"], bars["high"], tuple(bars["counts"])) if bars else None
    )
    for name in ("pass_at_k", "pass_hat_k"):
        values[name] = tuple(PassAtK(k, value) for k, value in stored[name])
    kinds = {"intervals": Estimate, "spreads": Spread, "metrics": MetricStats}
    for name, kind in kinds.items():
        values[name] = {key: kind(**parts) for key, parts in stored[name].items()}
    return Summary(**values)


def _points(curve: Sequence[PassAtK]) -> list[dict[str, Any]]:
    return [point._asdict() for point in curve]
