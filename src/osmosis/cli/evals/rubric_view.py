"""A rubric report for people, and its summary for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from osmosis.cli.output import Detail, NextStep, Operation, Section
from osmosis.cli.output.format import number, one_line, plural
from osmosis.rubric.judging import Counts
from osmosis.rubric.report import Finished

RECORDS_SHOWN = 20
ERRORS_SHOWN = 10
EXPLANATION_SHOWN_CHARS = 64


def operation(finished: Finished, report: Mapping[str, Any], target: Path | None) -> Operation:
    """The result of the command."""
    resource: dict[str, Any] = {
        "model": report["model"],
        "data_path": report["data_path"],
        "number": report["number"],
        "statistics": report["overall_statistics"],
        "record_count": len(report["records"]),
        "error_count": finished.error_count,
        "counts": report["counts"],
        "judges": report["judges"],
        "agreement": report["agreement"],
    }
    if target is None:
        resource["records"] = report["records"]
    else:
        resource["output_path"] = str(target)
    missing = finished.error_count
    return Operation(
        operation="eval.rubric",
        message=_message(finished),
        status="success" if missing == 0 else "partial",
        resource=resource,
        detail=_detail(finished, report),
        next_steps=[NextStep("Report:", str(target))] if target else (),
        exit_code=0 if missing == 0 else 1,
    )


def without_score(counts: Counts) -> str:
    """``, 3 unscored, 1 failed``, or nothing."""
    return "".join(
        f", {amount:,} {word}"
        for amount, word in (
            (counts.unscored, "unscored"),
            (counts.failed, "failed"),
            (counts.bad_records, "unreadable"),
        )
        if amount
    )


def _message(finished: Finished) -> str:
    counts = finished.counts
    records = plural(len(finished.outcomes), "record")
    if finished.error_count == 0:
        return f"{records} graded: {plural(counts.scored, 'score')}."
    return f"{plural(counts.scored, 'score')} for {records}{without_score(counts)}."


def _detail(finished: Finished, report: Mapping[str, Any]) -> Detail:
    overall, counts = report["overall_statistics"], finished.counts
    low, high = finished.task.score_min, finished.task.score_max
    rows = [
        ("Judge", str(report["model"])),
        ("Data", str(report["data_path"])),
        ("Range", f"{low:g} to {high:g}"),
        ("Scores", f"{counts.scored:,}{without_score(counts)}"),
    ]
    if counts.kept:
        rows.append(("Kept", f"{counts.kept:,} from an earlier, unfinished run"))
    if counts.scored:
        spread = number(overall["stdev"])
        rows.append(("Average", f"{number(overall['average'])} (standard deviation {spread})"))
        rows.append(("Lowest, highest", f"{overall['min']:g}, {overall['max']:g}"))
    sections = [_records(report["records"])]
    if len(finished.judges) > 1:
        sections.append(_agreement(report))
    elif finished.number > 1:
        alpha = report["judges"][0]["self_agreement_alpha"]
        rows.append(("Agrees with itself", f"{_defined(alpha)} (Krippendorff's alpha)"))
    errors = [error for record in report["records"] for error in record["errors"]]
    if errors:
        sections.append(_problems(errors))
    return Detail(data=report, rows=rows, sections=sections)


def _records(records: Sequence[Mapping[str, Any]]) -> Section:
    shown = [_record(record) for record in records[:RECORDS_SHOWN]]
    title = "Records"
    if len(records) > RECORDS_SHOWN:
        title += f" (the first {RECORDS_SHOWN} of {len(records):,}; the report holds all)"
    return Section(title, rows=shown)


def _record(record: Mapping[str, Any]) -> tuple[str, str]:
    numbers, label = record["statistics"], str(record["label"])
    if not record["scores"]:
        return label, "no score"
    text = f"{numbers['average']:g}"
    if len(record["scores"]) > 1:
        text = f"{number(numbers['average'])} ± {number(numbers['stdev'])}"
    explanation = one_line(str(record["explanations"][0]))
    if len(explanation) > EXPLANATION_SHOWN_CHARS:
        explanation = explanation[: EXPLANATION_SHOWN_CHARS - 1] + "…"
    return label, f"{text}  {explanation}"


def _agreement(report: Mapping[str, Any]) -> Section:
    found = report["agreement"]
    rows = [("Krippendorff's alpha", _defined(found["krippendorff_alpha"]))]
    rows += [
        (
            f"{pair['models'][0]} and {pair['models'][1]}",
            f"same score on {_share(pair['exact'])} of {pair['units']}, "
            f"kappa {_defined(pair['kappa'])}, weighted {_defined(pair['weighted_kappa'])}",
        )
        for pair in found["pairs"]
    ]
    rows += [
        (f"{judge['model']} alone", f"{number(judge['statistics']['average'])} on average")
        for judge in report["judges"]
    ]
    return Section("Agreement", rows=rows)


def _problems(errors: Sequence[str]) -> Section:
    lines = [one_line(error) for error in errors[:ERRORS_SHOWN]]
    if len(errors) > ERRORS_SHOWN:
        lines.append(f"and {len(errors) - ERRORS_SHOWN:,} more")
    return Section("Without a score", lines=lines)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.0f}%"


def _defined(value: float | None) -> str:
    return "not defined: the scores do not vary" if value is None else f"{value:.3f}"
