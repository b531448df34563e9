"""Everything that the page of a run shows, gathered from one read of the database."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.metrics.error_types import category_of
from osmosis.metrics.summary import Summary
from osmosis.platform.db.models import Run, RunLog, Sample, User
from osmosis.platform.evals.documents import (
    TERMINAL,
    budget_document,
    cost_document,
    duration_ms,
    selection_document,
)
from osmosis.platform.evals.numbers import Numbers
from osmosis.platform.evals.sample_page import DEFAULT_SAMPLES, SamplePage, page_of_samples
from osmosis.platform.web.chart import Chart, reward_chart
from osmosis.platform.web.formats import count, duration, money, number, pretty

LOG_TAIL = 30
Table = dict[str, Any]
HASH = re.compile(r"[0-9a-f]{32,64}")
SAMPLES_SHOWN = 50
CATEGORY_NOTES = {
    "agent": "the agent's own",
    "grader": "the grader's",
    "provider": "the model provider's",
    "platform": "the platform's",
    "timeout": "a time limit's",
}
EFFECTIVE_LABELS = {
    "in_flight": "Samples in flight",
    "advertised_max_concurrent": "Rollout's own limit",
    "sdk": "SDK",
    "limits": "Time limits",
    "sandbox": "Sandbox",
    "environment": "Environment",
    "model": "Gateway",
    "judge": "Judge",
}
SPREADS: dict[str, tuple[str, Callable[[float], str]]] = {
    "duration_ms": ("Duration", duration),
    "latency_ms": ("Model latency, per call", duration),
    "queue_ms": ("Queued", duration),
    "tokens": ("Tokens", lambda value: count(round(value))),
    "cost_usd": ("Cost", money),
}
# The settings and the advanced section are shown as they were submitted, the origin as a tag.
REPEATED = ("advanced", "origin")
SCOPE_LABELS = {
    "workspace": "workspace",
    "user": "personal",
    "user_override": "personal, overrides workspace",
    "provided": "given for this run",
}


@dataclass(frozen=True)
class ErrorKind:
    name: str
    count: int
    category: str


@dataclass(frozen=True)
class Tab:
    """A filter of the table of samples, and how many it lets through where that is known."""

    label: str
    number: int | None
    page: SamplePage


@dataclass(frozen=True)
class RunView:
    """A run as its page shows it. Templates read from here and decide nothing."""

    run: Run
    creator: User | None
    summary: Summary
    chart: Chart | None
    errors: list[ErrorKind]
    log: list[RunLog]
    samples: Sequence[Sample]
    page: SamplePage
    next_cursor: str | None
    duration_ms: float | None
    cost: dict[str, Any]
    selection: dict[str, Any]

    @property
    def planned(self) -> int:
        return self.run.selected_rows * self.run.n

    @property
    def ended(self) -> bool:
        return self.run.status in TERMINAL

    @property
    def scripted(self) -> bool:
        return is_scripted(self.run.model_path)

    @property
    def replays(self) -> list[dict[str, Any]]:
        """The runs that this one replays, each with its name and its model."""
        return self.run.config.get("replays", [])

    @property
    def settings(self) -> dict[str, Any]:
        """The evaluation settings in the documented order, then the advanced ones."""
        evaluation = self.run.config.get("evaluation", {})
        both = {**evaluation, **self.run.config.get("advanced", {})}
        return dict(labelled(key, value) for key, value in both.items() if value is not None)

    @property
    def effective(self) -> dict[str, Any]:
        """What the worker found and decided, without what the settings say already."""
        shown: dict[str, Any] = {}
        for key, value in self.run.effective.items():
            label, text = labelled(key, value)
            if label in self.settings or key in REPEATED or value is None:
                continue
            shown[label] = flattened(value) if isinstance(value, dict) else text
        for key, amounts in budget_document(self.run).get("budget", {}).items():
            shown[f"{labelled(key, None)[0]} spent"] = f"{amounts['spent']:,}"
        return shown

    @property
    def spreads(self) -> list[tuple[str, list[str]]]:
        """How quantities are spread: mean, p50, p95, p99 and max of each that is not all zero."""
        return spread_rows(self.summary)

    @property
    def secrets(self) -> dict[str, str]:
        return {
            name: SCOPE_LABELS.get(scope, scope) for name, scope in self.run.secret_scopes.items()
        }

    @property
    def tabs(self) -> list[Tab]:
        """The filters of the table."""
        run = self.run
        missed = run.sample_count - run.skipped_count - run.passed_count
        tabs = [
            Tab("all", run.sample_count, SamplePage()),
            Tab("passed", run.passed_count, SamplePage(passed=True)),
            Tab("not passed", missed, SamplePage(passed=False)),
            Tab("failed", run.failed_count, SamplePage(status="failed")),
            Tab("skipped", run.skipped_count, SamplePage(status="skipped")),
        ]
        if self.shown not in [tab.page for tab in tabs]:
            tabs.append(Tab(self.shown.error or "chosen", None, self.shown))
        return tabs

    @property
    def shown(self) -> SamplePage:
        """The filter of the table, whichever of its pages is shown."""
        return replace(self.page, limit=DEFAULT_SAMPLES, after=None)


async def view_run(
    session: AsyncSession,
    numbers: Numbers,
    run: Run,
    creator: User | None,
    page: SamplePage,
) -> RunView:
    """Gather what the page of ``run`` shows."""
    summary = await numbers.summary(run)
    samples, next_cursor = await page_of_samples(session, run, page)
    tail = select(RunLog).where(RunLog.run_id == run.id).order_by(RunLog.id.desc()).limit(LOG_TAIL)
    log = list((await session.execute(tail)).scalars())[::-1]
    return RunView(
        run=run,
        creator=creator,
        summary=summary,
        chart=reward_chart(summary.histogram, run.pass_threshold, summary.passed),
        errors=[
            ErrorKind(name, count, CATEGORY_NOTES[category_of(name) or "agent"])
            for name, count in summary.errors.items()
        ],
        log=log,
        samples=samples,
        page=page,
        next_cursor=next_cursor,
        duration_ms=duration_ms(run),
        cost=cost_document(run),
        selection=selection_document(run),
    )


def spread_rows(summary: Summary) -> list[tuple[str, list[str]]]:
    """Mean, p50, p95, p99 and max of each quantity that is not all zero."""
    rows: list[tuple[str, list[str]]] = []
    for name, (label, shown) in SPREADS.items():
        spread = summary.spreads.get(name)
        if spread is not None and spread.max:
            values = (spread.mean, spread.p50, spread.p95, spread.p99, spread.max)
            rows.append((label, [shown(value) for value in values]))
    return rows


def labelled(key: str, value: Any) -> tuple[str, str]:
    """A key of a config and its value for people: ``("Grader timeout", "150 s")``."""
    label, text = _with_unit(key, value)
    label = EFFECTIVE_LABELS.get(key, label)
    return label if len(label) == 1 else label[0].upper() + label[1:], text


def _with_unit(key: str, value: Any) -> tuple[str, str]:
    """A key in words and its value with the unit that the key names."""
    text = f"({flattened(cast(Table, value))})" if isinstance(value, dict) else shown_value(value)
    if key.endswith("_s"):
        key, text = key.removesuffix("_s"), f"{text} s"
    return key.replace("_", " "), text


def flattened(values: Table) -> str:
    """A small table on one line: ``provider: openai, cached: yes, check: (prompt tokens: 7)``."""
    known = ((key, value) for key, value in values.items() if value is not None)
    return ", ".join(f"{label}: {text}" for label, text in (_with_unit(*pair) for pair in known))


def shown_value(value: Any) -> str:
    """A setting as people write it: whole numbers without a point, hashes cut short."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    text = pretty(value)
    return text[:12] if HASH.fullmatch(text) else text


def is_replay(model_path: str) -> bool:
    """Whether the answers come from an earlier run; such a run is labelled wherever it shows."""
    return model_path.startswith("replay/")


def is_scripted(model_path: str) -> bool:
    """Whether the answers come from a file of rules; such a run is labelled wherever it shows."""
    return model_path.startswith("scripted/")
