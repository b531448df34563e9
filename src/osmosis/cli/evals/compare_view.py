"""Runs against each other, for people: the conclusion first, then what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from osmosis.cli.output import Detail, NextStep, Section
from osmosis.cli.output.format import milliseconds, number, percent, plural, text
from osmosis.metrics.telling import tells

Document = Mapping[str, Any]
Rows = list[tuple[str, str]]

SHOWN_ROWS = 5
SHOWN_SETTINGS = 12


def compare_detail(document: Document, context: Mapping[str, Any]) -> Detail:
    """``eval compare``: the whole answer for programs, sections for people."""
    baseline = document["baseline"]
    rows: Rows = [("Baseline", _run_text(baseline))]
    sections: list[Section] = []
    parts: Sequence[Document] = document["comparisons"]
    for part in parts:
        candidate = part["candidate"]
        label = "Candidate" if len(parts) == 1 else f"Candidate {len(rows)}"
        rows.append((label, _run_text(candidate)))
        sections += _sections(baseline, part, named=len(parts) > 1)
    if document.get("cluster_by"):
        rows.append(("Grouped by", str(document["cluster_by"])))
    steps = [
        NextStep("View:", str(run["platform_url"]))
        for run in (baseline, *(part["candidate"] for part in parts))
        if run.get("platform_url")
    ]
    return Detail(data={**document, **context}, rows=rows, sections=sections, hints=steps)


def _run_text(run: Document) -> str:
    parts = [
        text(run.get("name")),
        text(run.get("model")),
        f"commit {text(run.get('commit_sha'))[:7]}",
        plural(int(run.get("samples") or 0), "sample"),
    ]
    if run.get("status") != "finished":
        parts.append(text(run.get("status")))
    return "  ".join(parts)


def _sections(baseline: Document, part: Document, *, named: bool) -> list[Section]:
    name = text(part["candidate"].get("name"))
    title = f"{name} against {text(baseline.get('name'))}" if named else "Conclusion"
    sections = [Section(title, lines=[part["conclusion"]])]
    if notes := part.get("notes"):
        sections.append(Section("Mind", lines=[note["message"] for note in notes]))
    sections.append(Section("Measures", rows=_measures(part)))
    for kind, heading in (("broken", "Broken rows"), ("fixed", "Fixed rows")):
        changes = part.get(kind)
        if changes and changes["count"]:
            sections.append(Section(f"{heading} ({changes['count']:,})", rows=_changes(changes)))
    if settings := part.get("changed_settings"):
        sections.append(Section("Set differently", rows=_settings(settings)))
    return sections


def _measures(part: Document) -> Rows:
    rows: Rows = []
    if part["paired"]:
        matched = f"{plural(part['matched_rows'], 'row')} of both"
        left_out = (part["only_baseline"] or 0) + (part["only_candidate"] or 0)
        rows.append(("Matched", f"{matched}, {left_out:,} left out" if left_out else matched))
    for name, label, show, signed in SHOWN_MEASURES:
        if tells(name, part["measures"]):
            rows.append((label, _measure_text(part["measures"][name], show, signed)))
    return rows


def _measure_text(
    measure: Document, show: Callable[[Any], str], signed: Callable[[Any], str]
) -> str:
    shown = f"{show(measure['baseline'])} -> {show(measure['candidate'])}"
    shown += f"  {signed(measure['difference'])}"
    if measure.get("low") is not None:
        shown += f"  [{signed(measure['low'])}, {signed(measure['high'])}]"
    p_value = measure.get("p_adjusted", measure.get("p_value"))
    if p_value is not None:
        shown += "  p < 0.001" if p_value < 0.001 else f"  p = {p_value:.3f}"
    return f"{shown}  {plural(measure['rows'], 'row')}"


def _changes(changes: Document) -> Rows:
    rows: Rows = []
    for row in changes["rows"][:SHOWN_ROWS]:
        before, after = row["baseline"], row["candidate"]
        rows.append((f"dataset row {row['source_row']}", f"{_passes(before)}  {before['url']}"))
        rows.append(("", f"-> {_passes(after)}  {after['url']}"))
    more = changes["count"] - len(rows) // 2
    if more > 0:
        rows.append(("...", f"{more:,} more; --rows N lists more of them in --json"))
    return rows


def _passes(side: Document) -> str:
    if side["attempts"] == 1:
        reward = side.get("reward")
        verdict = "passed" if side["passed"] else "not passed"
        return verdict if reward is None else f"{verdict} ({reward:g})"
    return f"{side['passed']} of {side['attempts']} passed"


def _settings(settings: Sequence[Document]) -> Rows:
    rows = [
        (str(entry["key"]), f"{_value(entry['baseline'])} -> {_value(entry['candidate'])}")
        for entry in settings[:SHOWN_SETTINGS]
    ]
    more = len(settings) - len(rows)
    return [*rows, ("...", f"{more} more in --json")] if more > 0 else rows


def _value(value: Any) -> str:
    shown = text(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _points(value: Any) -> str:
    return f"{value * 100:+.1f}"


def _signed(value: Any) -> str:
    return f"{value:+.4g}"


def _dollars(value: Any) -> str:
    return f"${value:.4g}"


SHOWN_MEASURES: tuple[tuple[str, str, Callable[[Any], str], Callable[[Any], str]], ...] = (
    ("pass_rate", "Pass rate", percent, _points),
    ("clean_pass_rate", "Clean pass rate", percent, _points),
    ("score", "Mean reward", number, _signed),
    ("cost_usd", "Cost per sample", _dollars, _signed),
    ("tokens", "Tokens per sample", lambda value: f"{value:,.0f}", lambda value: f"{value:+,.0f}"),
    ("duration_ms", "Time per sample", milliseconds, lambda value: f"{value:+,.0f} ms"),
)
