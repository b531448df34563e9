"""What a reader must know before believing a comparison: each note a code and a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from osmosis.platform.db.models import Run
from osmosis.platform.evals.documents import TERMINAL

if TYPE_CHECKING:
    from osmosis.metrics.comparison import Comparison

FEW_ROWS = 30
SHOWN_SHIFT = 0.001
"""A tenth of a point: less is not worth a sentence."""

SETTINGS = ("rollout", "entrypoint", "model_path", "commit_sha", "dataset_name", "n")
SAID_ELSEWHERE = ("sample_seed", "pass_threshold")
"""Which rows ran and what passes are said in notes of their own."""


class Note(NamedTuple):
    code: str
    message: str


def changed_settings(baseline: Run, candidate: Run) -> list[tuple[str, object, object]]:
    """What was set differently: (key, baseline's, candidate's)."""
    both = [(key, getattr(baseline, key), getattr(candidate, key)) for key in SETTINGS]
    for section in ("evaluation", "advanced"):
        old, new = baseline.config.get(section, {}), candidate.config.get(section, {})
        both += [
            (key, old.get(key), new.get(key))
            for key in sorted({*old, *new})
            if key not in (*SETTINGS, *SAID_ELSEWHERE)
        ]
    both += [
        (f"env.{key}", baseline.env.get(key), candidate.env.get(key))
        for key in sorted({*baseline.env, *candidate.env})
    ]
    return [(key, old, new) for key, old, new in both if old != new]


def notes_on(baseline: Run, candidate: Run, found: Comparison | None) -> list[Note]:
    """Everything that limits what may be concluded. ``found`` is None for unpaired runs."""
    notes = [*_of_run(baseline), *_of_run(candidate)]
    if found is None:
        return [*notes, _other_dataset(baseline, candidate)]
    notes += _of_rows(baseline, candidate, found)
    if baseline.pass_threshold != candidate.pass_threshold:
        notes.append(
            Note(
                "threshold_differs",
                f"The runs have different pass thresholds ({baseline.pass_threshold:g} and "
                f"{candidate.pass_threshold:g}): here both pass at {baseline.pass_threshold:g}, "
                f"the one of {baseline.name}.",
            )
        )
    if found.score and found.pass_rate:
        left_out = found.pass_rate.difference.rows - found.score.difference.rows
        if left_out > 0:
            notes.append(
                Note(
                    "ungraded_rows",
                    f"{_rows(left_out)} without a grade in one of the runs "
                    f"{_are(left_out)} in the pass rate as a miss, and not in the mean reward.",
                )
            )
    if found.clean_pass_rate and found.pass_rate:
        shift = found.clean_pass_rate.difference.value - found.pass_rate.difference.value
        if abs(shift) >= SHOWN_SHIFT:
            notes.append(
                Note(
                    "infrastructure",
                    "Failures of the provider, the platform or a time limit move the difference "
                    f"of the pass rates by {-shift * 100:+.1f} points; the clean pass rate leaves "
                    "them out.",
                )
            )
    return notes


def _of_run(run: Run) -> Iterator[Note]:
    planned = run.selected_rows * run.n
    counts = f"{run.sample_count:,} of {planned:,} samples"
    if run.status not in TERMINAL:
        text = f"{run.name} is {run.status}, with {counts}: the comparison is of what is there now."
        yield Note("unfinished", text)
    elif run.sample_count < planned:
        reason = {"budget": "its budget"}.get(run.stop_reason or "", run.stop_reason or "an error")
        how = "failed" if run.status == "failed" else f"was stopped by {reason}"
        yield Note(
            "partial",
            f"{run.name} {how} after {counts}. Rows that take long or cost much may be "
            "missing, so what is there may not be a fair sample.",
        )


def _of_rows(baseline: Run, candidate: Run, found: Comparison) -> Iterator[Note]:
    only = ((baseline, found.only_baseline), (candidate, found.only_candidate))
    selections = [
        (run.selection.get("kind"), run.selection.get("rows")) for run in (baseline, candidate)
    ]
    different = selections[0] != selections[1]
    for run, count in only:
        if count:
            why = "the other selected other rows" if different else "the other did not record them"
            text = f"{_rows(count)} {_are(count)} only in {run.name} and left out: {why}."
            yield Note("selection_differs" if different else "rows_missing", text)
    if baseline.n != candidate.n:
        yield Note(
            "n_differs",
            f"The runs have n = {baseline.n} and n = {candidate.n}: each row counts once, by the "
            "mean of its samples.",
        )
    if not found.matched:
        yield Note("no_common_rows", "The runs have no row in common.")
    elif found.matched < FEW_ROWS:
        yield Note(
            "few_rows",
            f"With {_rows(found.matched)} only a great difference can be told from chance.",
        )


def _other_dataset(baseline: Run, candidate: Run) -> Note:
    names = (
        f"'{baseline.dataset_name}'"
        if baseline.dataset_name == candidate.dataset_name
        else f"'{baseline.dataset_name}' and '{candidate.dataset_name}'"
    )
    return Note(
        "dataset_differs",
        f"The runs used different files of the dataset {names} "
        f"(SHA-256 {baseline.dataset_sha256[:12]} and {candidate.dataset_sha256[:12]}), so no row "
        "can be matched: they are compared as independent samples, which tells less, and part of "
        "a difference may be that of the rows. The same file for both, and with it pairs of rows, "
        f"comes from: osmosis eval rerun {baseline.name}{_unlike(baseline, candidate)}.",
    )


def _unlike(baseline: Run, candidate: Run) -> str:
    """The flags that make a rerun of the baseline one of the candidate's code and model."""
    flags = ""
    if baseline.commit_sha != candidate.commit_sha:
        flags += f" --commit-sha {candidate.commit_sha[:12]}"
    if baseline.model_path != candidate.model_path:
        flags += f" --model {quote(candidate.model_path)}"
    return flags


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
