"""How sure a run's numbers are, and how its samples are spread, for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from osmosis.cli.output import Section
from osmosis.cli.output.format import count, milliseconds, money, number, percent, plural

Document = Mapping[str, Any]
Rows = list[tuple[str, str]]

MAX_METRICS = 20


def curve_text(points: Document) -> str:
    """A curve over k: ``k=1 50.0%  k=2 75.0%``."""
    ordered = sorted(points.items(), key=lambda item: int(item[0]))
    return "  ".join(f"k={k} {percent(value)}" for k, value in ordered)


def certainty_rows(results: Document) -> Rows:
    """The intervals, what they rest on, and pass^k."""
    rows: Rows = []
    intervals = _part(results, "intervals")
    rate, score = _part(intervals, "pass_rate"), _part(intervals, "score")
    shown = [
        f"{name} {show(estimate['low'])} to {show(estimate['high'])}"
        for name, estimate, show in (("pass rate", rate, percent), ("reward", score, number))
        if estimate
    ]
    if shown:
        rows.append(("95% interval", ", ".join(shown)))
    if rate and rate["clusters"] < rate["samples"]:
        samples, clusters = plural(rate["samples"], "sample"), plural(rate["clusters"], "row")
        rows.append(("Rests on", f"{samples} of {clusters}, clustered by row"))
    if points := _part(results, "pass_hat_k"):
        rows.append(("Pass^k (all pass)", curve_text(points)))
    return rows


def grouped_section(answer: Document) -> Section:
    """Intervals with the rows that share a column of the dataset as clusters."""
    rows: Rows = []
    labels = {"pass_rate": "Pass rate", "score": "Reward", "score_bootstrap": "Reward, bootstrap"}
    for name, label in labels.items():
        estimate = _part(_part(answer, "intervals"), name)
        if estimate:
            show = percent if name == "pass_rate" else number
            ends = f"{show(estimate['low'])} to {show(estimate['high'])}"
            groups = plural(estimate["clusters"], "group")
            rows.append((label, f"{show(estimate['value'])}  [{ends}]  {groups}"))
    return Section(f"95% intervals, rows grouped by {answer['cluster_by']}", rows=rows)


def spread_sections(results: Document) -> list[Section]:
    """How time, tokens and cost are spread, and the custom metrics."""
    sections: list[Section] = []
    spreads = _part(results, "spreads")
    rows = [
        (label, _spread_text(_part(spreads, name), show))
        for name, label, show in SHOWN_SPREADS
        if _part(spreads, name).get("max")
    ]
    if rows:
        sections.append(Section("Per sample", rows=rows))
    metrics = _part(results, "metrics")
    if metrics:
        names = list(metrics)[:MAX_METRICS]
        rows = [(str(name), _metric_text(metrics[name])) for name in names]
        if len(metrics) > len(names):
            rows.append(("...", f"{len(metrics) - len(names)} more in --json"))
        sections.append(Section("Metrics", rows=rows))
    return sections


def _whole(value: Any) -> str:
    return count(round(value))


SHOWN_SPREADS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("duration_ms", "Duration", milliseconds),
    ("latency_ms", "Model latency (per call)", milliseconds),
    ("queue_ms", "Queued", milliseconds),
    ("tokens", "Tokens", _whole),
    ("cost_usd", "Cost", money),
)


def _spread_text(spread: Document, show: Callable[[Any], str]) -> str:
    names = ("mean", "p50", "p95", "p99", "max")
    return "  ".join(f"{name} {show(spread[name])}" for name in names)


def _metric_text(stats: Document) -> str:
    names = ("mean", "std", "min", "max")
    shown = "  ".join(f"{name} {number(stats[name])}" for name in names)
    return f"{shown}  in {plural(int(stats['count']), 'sample')}"


def _part(document: Document, key: str) -> Document:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}
