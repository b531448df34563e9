"""The report: every judgement, and the numbers over them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

from osmosis.evaluation.redaction import Redactor
from osmosis.rubric.agreement import krippendorff_alpha, pair_agreement
from osmosis.rubric.judge import Judge, Judgement
from osmosis.rubric.judging import Counts, Outcome
from osmosis.rubric.prompt import PROMPT_VERSION, Task
from osmosis.wire.errors import OsmosisError

DEFAULT_NAME = "rubric_eval_result.json"


@dataclass(frozen=True)
class Finished:
    """All that a report is made of. ``redactor`` knows the keys, which must not stand in it."""

    judges: Sequence[Judge]
    task: Task
    data_path: str
    number: int
    outcomes: Sequence[Outcome]
    counts: Counts
    redactor: Redactor

    @property
    def error_count(self) -> int:
        """Judgements without a score, and records that could not be judged."""
        return self.counts.unscored + self.counts.failed + self.counts.bad_records


def build_report(finished: Finished) -> dict[str, Any]:
    """The report's document, ready to be written as JSON."""
    judges = finished.judges
    scores = [score for outcome in finished.outcomes for score in _scores(outcome)]
    report: dict[str, Any] = {
        "generated_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": ", ".join(judge.link.model for judge in judges),
        "rubric": finished.task.rubric,
        "data_path": finished.data_path,
        "number": finished.number,
        "score_min": finished.task.score_min,
        "score_max": finished.task.score_max,
        "prompt_version": PROMPT_VERSION,
        "overall_statistics": statistics(scores),
        "counts": {
            "records": len(finished.outcomes),
            "bad_records": finished.counts.bad_records,
            "judgements": finished.counts.done,
            "scored": finished.counts.scored,
            "unscored": finished.counts.unscored,
            "failed": finished.counts.failed,
            "resumed": finished.counts.kept,
        },
        "judges": [_judge(finished, number) for number in range(len(judges))],
        "agreement": _agreement(finished),
        "records": [_record(finished, outcome) for outcome in finished.outcomes],
    }
    return finished.redactor.json(report)


def statistics(scores: Sequence[float]) -> dict[str, Any]:
    """``average, variance, stdev`` (population), ``min, max`` and ``count``; 0.0 without scores."""
    if not scores:
        return {"average": 0.0, "variance": 0.0, "stdev": 0.0, "min": 0.0, "max": 0.0, "count": 0}
    average = math.fsum(scores) / len(scores)
    variance = 0.0
    if min(scores) != max(scores):
        variance = math.fsum((score - average) ** 2 for score in scores) / len(scores)
    else:
        average = scores[0]
    return {
        "average": average,
        "variance": variance,
        "stdev": math.sqrt(variance),
        "min": min(scores),
        "max": max(scores),
        "count": len(scores),
    }


def report_path(given: str) -> Path:
    """The file of ``--output``; in a directory, or after a slash, it has the usual name."""
    path = Path(given).expanduser()
    if given.endswith(("/", os.sep)) or path.is_dir():
        return path / DEFAULT_NAME
    return path


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    text = json.dumps(report, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise OsmosisError(f"Cannot write {path}: {error.strerror}.") from None


def _scores(outcome: Outcome, number: int | None = None) -> list[float]:
    return [
        judgement.score
        for (judge, _), judgement in sorted(outcome.judgements.items())
        if judgement.score is not None and number in (None, judge)
    ]


def _record(finished: Finished, outcome: Outcome) -> dict[str, Any]:
    several = len(finished.judges) > 1
    scored, errors, judgements = list[Judgement](), list[str](), list[dict[str, Any]]()
    if outcome.problem:
        errors.append(f"{outcome.place}: {outcome.problem}")
    for (number, run_index), judgement in sorted(outcome.judgements.items()):
        model = finished.judges[number].link.model
        if judgement.status == "scored":
            scored.append(judgement)
        else:
            who = f"{model}: " if several else ""
            errors.append(f"{outcome.place}: {judgement.status}: {who}{judgement.reason}")
        entry = {"model": model, "run_index": run_index, **asdict(judgement)}
        judgements.append({key: value for key, value in entry.items() if value not in (None, ())})
    scores = [judgement.score for judgement in scored if judgement.score is not None]
    return {
        "index": outcome.index,
        "label": outcome.label,
        "place": outcome.place,
        "scores": scores,
        "explanations": [judgement.explanation for judgement in scored],
        "errors": errors,
        "statistics": statistics(scores),
        "judgements": judgements,
    }


def _judge(finished: Finished, number: int) -> dict[str, Any]:
    judge = finished.judges[number]
    mine = [j for o in finished.outcomes for (who, _), j in o.judgements.items() if who == number]
    tokens = [(j.prompt_tokens, j.completion_tokens) for j in mine]
    return {
        "model": judge.link.model,
        "base_url": judge.link.address,
        "response_format": judge.shape.format,
        "temperature": judge.shape.temperature,
        "scored": sum(j.status == "scored" for j in mine),
        "unscored": sum(j.status == "unscored" for j in mine),
        "failed": sum(j.status == "failed" for j in mine),
        "asked_again": sum(j.asks > 1 for j in mine),
        "statistics": statistics([j.score for j in mine if j.score is not None]),
        "prompt_tokens": sum(prompt or 0 for prompt, _ in tokens),
        "completion_tokens": sum(completion or 0 for _, completion in tokens),
        "self_agreement_alpha": _self_alpha(finished, number) if finished.number > 1 else None,
    }


def _self_alpha(finished: Finished, number: int) -> float | None:
    """Krippendorff's alpha of one judge's repeats, each repeat a judge of its own."""
    return krippendorff_alpha(
        [
            [_score_of(outcome, number, run_index) for outcome in finished.outcomes]
            for run_index in range(finished.number)
        ]
    )


def _agreement(finished: Finished) -> dict[str, Any] | None:
    """Of several judges, on the mean of each one's repeats; None with a single judge."""
    if len(finished.judges) < 2:
        return None
    rows = [
        [_mean(_scores(outcome, number)) for outcome in finished.outcomes]
        for number in range(len(finished.judges))
    ]
    models = [judge.link.model for judge in finished.judges]
    return {
        "krippendorff_alpha": krippendorff_alpha(rows),
        "pairs": [
            {"models": [models[a], models[b]], **asdict(pair_agreement(rows[a], rows[b]))}
            for a, b in combinations(range(len(models)), 2)
        ],
    }


def _score_of(outcome: Outcome, number: int, run_index: int) -> float | None:
    judgement = outcome.judgements.get((number, run_index))
    return judgement.score if judgement else None


def _mean(scores: Sequence[float]) -> float | None:
    return math.fsum(scores) / len(scores) if scores else None
