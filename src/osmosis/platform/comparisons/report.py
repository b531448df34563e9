"""A comparison in the shape in which it crosses HTTP and reaches the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from osmosis.metrics.huge import within
from osmosis.metrics.intervals import CONFIDENCE
from osmosis.metrics.several import holm
from osmosis.metrics.unpaired import welch
from osmosis.platform.comparisons.conclusion import conclusion
from osmosis.platform.comparisons.notes import changed_settings, notes_on
from osmosis.platform.db.models import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from osmosis.metrics.comparison import ChangedRow, Changes, Comparison, Measure
    from osmosis.metrics.summary import Summary

MEASURES = ("pass_rate", "clean_pass_rate", "score", "cost_usd", "tokens", "duration_ms")
HEADLINES = ("pass_rate", "score")

Url = Callable[[str], str]


def report(
    baseline: Run,
    candidates: Sequence[tuple[Run, Comparison | None]],
    summaries: dict[str, Summary],
    *,
    cluster_by: str | None,
    url: Url,
) -> dict[str, Any]:
    """The document. A candidate without a comparison could not be paired with the baseline.

    ``url`` makes the address of a page from its path below the workspace's runs.
    """
    parts = [_part(baseline, run, found, summaries, url) for run, found in candidates]
    if len(parts) > 1:
        _adjust(parts)
    for part, (run, found) in zip(parts, candidates, strict=True):
        part["conclusion"] = conclusion(
            baseline.name,
            run.name,
            part["measures"],
            paired=found is not None,
            same=not part["changed_settings"],
        )
    return {
        "baseline": _run(baseline, url),
        "pass_threshold": baseline.pass_threshold,
        "cluster_by": cluster_by,
        "confidence": CONFIDENCE,
        "comparisons": parts,
    }


def _part(
    baseline: Run, run: Run, found: Comparison | None, summaries: dict[str, Summary], url: Url
) -> dict[str, Any]:
    notes = notes_on(baseline, run, found)
    part: dict[str, Any] = {
        "candidate": _run(run, url),
        "paired": found is not None,
        "matched_rows": found.matched if found else 0,
        "only_baseline": found.only_baseline if found else None,
        "only_candidate": found.only_candidate if found else None,
        "changed_settings": [
            {"key": key, "baseline": old, "candidate": new}
            for key, old, new in changed_settings(baseline, run)
        ],
        "notes": [note._asdict() for note in notes],
    }
    if found is None:
        part["measures"] = _unpaired(summaries[baseline.id], summaries[run.id])
        return part
    measures = {name: getattr(found, name) for name in MEASURES}
    part["measures"] = {name: _measure(found) for name, found in measures.items() if found}
    part["fixed"] = _changes(found.fixed, baseline, run, url)
    part["broken"] = _changes(found.broken, baseline, run, url)
    return part


def _run(run: Run, url: Url) -> dict[str, Any]:
    return {
        "id": run.id,
        "name": run.name,
        "status": run.status,
        "model": run.model_path,
        "rollout": run.rollout,
        "commit_sha": run.commit_sha,
        "dataset": run.dataset_name,
        "dataset_sha256": run.dataset_sha256,
        "selected_rows": run.selected_rows,
        "n": run.n,
        "samples": run.sample_count,
        "pass_threshold": run.pass_threshold,
        "platform_url": url(run.name),
    }


def _measure(measure: Measure) -> dict[str, Any]:
    difference = vars(measure.difference)
    return {
        "baseline": measure.baseline,
        "candidate": measure.candidate,
        "difference": difference["value"],
        **{key: value for key, value in difference.items() if key != "value"},
    }


def _unpaired(baseline: Summary, candidate: Summary) -> dict[str, Any]:
    measures: dict[str, Any] = {}
    for name in ("pass_rate", "clean_pass_rate", "score"):
        old, new = baseline.intervals.get(name), candidate.intervals.get(name)
        if old is None or new is None:
            continue
        found = welch(old, new)
        low, high, p_value = found or (None, None, None)
        measures[name] = {
            "baseline": old.value,
            "candidate": new.value,
            "difference": within(new.value - old.value),
            "low": low,
            "high": high,
            "p_value": p_value,
            "rows": old.clusters + new.clusters,
            "clusters": old.clusters + new.clusters,
            "interval": "welch",
            "test": "welch",
        }
    return measures


def _adjust(parts: Sequence[dict[str, Any]]) -> None:
    """Put p-values beside the headlines that allow for there being several comparisons."""
    for name in HEADLINES:
        tested = [p["measures"][name] for p in parts if name in p["measures"]]
        tested = [measure for measure in tested if measure["p_value"] is not None]
        adjusted = holm([measure["p_value"] for measure in tested])
        for measure, p_value in zip(tested, adjusted, strict=True):
            measure["p_adjusted"] = p_value


def _changes(changes: Changes, baseline: Run, candidate: Run, url: Url) -> dict[str, Any]:
    return {
        "count": changes.count,
        "rows": [_changed(row, baseline, candidate, url) for row in changes.rows],
    }


def _changed(row: ChangedRow, baseline: Run, candidate: Run, url: Url) -> dict[str, Any]:
    def side(
        run: Run, passes: tuple[int, int], reward: float | None, key: tuple[int, int]
    ) -> dict[str, Any]:
        return {
            "passed": passes[0],
            "attempts": passes[1],
            "reward": reward,
            "row_index": key[0],
            "run_index": key[1],
            "url": url(f"{run.name}/samples/{key[0]}/{key[1]}"),
        }

    return {
        "source_row": row.source_row,
        "baseline": side(baseline, row.baseline, row.baseline_reward, row.baseline_sample),
        "candidate": side(candidate, row.candidate, row.candidate_reward, row.candidate_sample),
    }
