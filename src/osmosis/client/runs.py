"""A run as Python programs see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from osmosis.client.following import TERMINAL


@dataclass(frozen=True)
class Run:
    """One evaluation run as it was when it was read; ``client.run(run)`` reads it anew.

    ``document`` is the whole answer of the platform, for what has no attribute here.
    """

    id: str
    name: str
    status: str
    """``pending``, ``running``, ``finished``, ``failed`` or ``stopped``."""
    stage: str | None
    """What a run that is under way does now, such as ``installing``."""
    model: str | None
    dataset: str | None
    rollout: str | None
    url: str | None
    """The page of the run."""
    created_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    reward: float | None
    """The mean reward of the graded samples."""
    pass_rate: float | None
    graded: int
    failed: int
    skipped: int
    error: str | None
    """Why the run failed as a whole."""
    document: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL

    @property
    def results(self) -> Mapping[str, Any]:
        """The numbers of the run, as ``osmosis --json eval info`` gives them."""
        return _part(self.document, "results")


def run_of(document: Mapping[str, Any]) -> Run:
    """A run from the platform's answer: an item of a list, or a detail."""
    run = _part(document, "eval_run") or document
    results, config = _part(document, "results"), _part(document, "config")
    error = document.get("error") or run.get("error")
    return Run(
        id=str(run["id"]),
        name=str(run["name"]),
        status=str(run["status"]),
        stage=_text(run.get("stage")) if run.get("status") not in TERMINAL else None,
        model=_name(document.get("model")) or _text(config.get("model_path")),
        dataset=_name(document.get("dataset")),
        rollout=_name(document.get("rollout")),
        url=_text(run.get("platform_url")),
        created_at=_time(run.get("created_at")),
        started_at=_time(run.get("started_at")),
        completed_at=_time(run.get("completed_at")),
        reward=_number(results.get("score")),
        pass_rate=_number(results.get("pass_rate")),
        graded=int(results.get("graded") or 0),
        failed=int(results.get("failed") or 0),
        skipped=int(results.get("skipped") or 0),
        error=_text(error.get("message") if isinstance(error, Mapping) else error),
        document=document,
    )


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _name(reference: Any) -> str | None:
    return _text(reference.get("name") if isinstance(reference, Mapping) else reference)


def _time(value: Any) -> datetime | None:
    text = _text(value)
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
