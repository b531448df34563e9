"""The run as one HTML file that needs nothing else: numbers, charts, samples, conversations."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from osmosis.metrics.error_types import category_of
from osmosis.metrics.summary import Summary
from osmosis.platform.exports.stored import StoredRun, StoredSample
from osmosis.platform.web.chart import Chart, reward_chart
from osmosis.platform.web.conversation import Turn, label_of, turn_of
from osmosis.platform.web.run_view import CATEGORY_NOTES, labelled, spread_rows
from osmosis.platform.web.templating import STATIC, render

NOT_SETTINGS = ("advanced", "model_path")
LISTED_SAMPLES = 2000
TOLD_SAMPLES = 25
TOLD_STEPS = 60


@dataclass(frozen=True)
class Told:
    """A sample with its conversation."""

    sample: StoredSample
    label: str | None
    turns: list[Turn]
    more_steps: int


@dataclass
class Report:
    """What the template shows. Everything is bounded, and what is left out is counted."""

    run: StoredRun
    listed: list[StoredSample] = field(default_factory=list[StoredSample])
    told: list[Told] = field(default_factory=list[Told])

    @property
    def summary(self) -> Summary:
        return self.run.summary

    @property
    def ended(self) -> bool:
        return self.run.document["eval_run"]["status"] not in ("pending", "running")

    @cached_property
    def chart(self) -> Chart | None:
        return reward_chart(
            self.summary.histogram, self.summary.pass_threshold, self.summary.passed
        )

    @property
    def settings(self) -> dict[str, str]:
        """The configuration, label by label."""
        config: Mapping[str, Any] = self.run.document["config"]
        flat = {**config, **config.get("advanced", {})}
        shown = {k: v for k, v in flat.items() if k not in NOT_SETTINGS and v is not None}
        return dict(labelled(key, value) for key, value in shown.items())

    @property
    def spreads(self) -> list[tuple[str, list[str]]]:
        return spread_rows(self.summary)

    @property
    def errors(self) -> list[tuple[str, int, str]]:
        return [
            (name, number, CATEGORY_NOTES[category_of(name) or "agent"])
            for name, number in self.summary.errors.items()
        ]


def write_html(run: StoredRun, path: Path) -> None:
    """Write the report; the samples are read once, and only those shown are held."""
    report = Report(run)
    worst: list[tuple[float, int, StoredSample]] = []
    for sample in run.samples():
        if len(report.listed) < LISTED_SAMPLES:
            report.listed.append(sample)
        if sample.passed is False:
            # The heap's least is the best of the kept ones: it goes first.
            badness = -sample.reward if sample.reward is not None else float("inf")
            item = (badness, -run.samples_read, sample)
            if len(worst) < TOLD_SAMPLES:
                heapq.heappush(worst, item)
            else:
                heapq.heappushpop(worst, item)
    told = [sample for _, _, sample in sorted(worst, key=lambda item: item[:2], reverse=True)]
    report.told = [_told(sample) for sample in told or report.listed[:1]]
    style = (STATIC / "osmosis.css").read_text(encoding="utf-8")
    text = render("report.html", view=report, style=style)
    path.write_text(text, encoding="utf-8")


def _told(sample: StoredSample) -> Told:
    if sample.entry is None or sample.entry.document is None:
        return Told(sample, None, [], 0)
    steps = sample.entry.read_steps(0, TOLD_STEPS)
    hidden = sample.entry.count("steps") - len(steps)
    return Told(sample, label_of(sample.entry.document), [turn_of(step) for step in steps], hidden)
