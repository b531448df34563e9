"""The flags of a gate, the verdict for people, and the JUnit report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from osmosis.cli.arguments import UsageMistake
from osmosis.cli.output import Section
from osmosis.cli.session import session
from osmosis.wire.errors import ValidationFailed
from osmosis.wire.verdict import Verdict, verdict_of

if TYPE_CHECKING:
    from osmosis.metrics.junit import SampleCase

MARKS = {"passed": "Reached", "failed": "Missed", "undecided": "Undecided"}


class Share(click.ParamType):
    """A fraction: ``0.9`` or ``90%``."""

    name = "share"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            self.fail(f"'{value}' is no share; write it like 0.9 or 90%.", param, ctx)
        if not 0 <= share <= 1:
            meant = f" Do you mean {text}%?" if 1 < share <= 100 else ""
            self.fail(f"A share is between 0 and 1.{meant}", param, ctx)
        return share


SHARE = Share()
_FLAGS = (
    click.option(
        "--min-pass-rate", type=SHARE, metavar="SHARE", help="The run's pass rate, such as 0.9."
    ),
    click.option("--min-score", type=float, metavar="X", help="The run's mean reward."),
    click.option(
        "--min-row-pass-rate", type=SHARE, metavar="SHARE",
        help="The pass rate of each row over its n samples.",
    ),
    click.option(
        "--min-row-score", type=float, metavar="X", help="The mean reward of each row."
    ),
    click.option(
        "--max-regression-vs", metavar="RUN",
        help="The run to compare with: the pass rate over shared rows may not fall.",
    ),
    click.option(
        "--max-regression", type=SHARE, default=0.0, metavar="SHARE",
        help="By how much it may fall, such as 0.02.",
    ),
    click.option(
        "--only-significant", is_flag=True,
        help="Let a fall through that is not certain at 95 %.",
    ),
    click.option(
        "--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
        help="Write the thresholds and samples as JUnit XML.",
    ),
)  # fmt: skip


def gate_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """The thresholds of a gate, for a command that takes them as one :class:`Gate`."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


@dataclass(frozen=True)
class Gate:
    """What a run must reach, as the flags say."""

    thresholds: dict[str, Any]
    junit: Path | None

    @classmethod
    def of(cls, flags: dict[str, Any]) -> Gate:
        """The gate of a command's flags, which are taken out of ``flags``."""
        names = ("min_pass_rate", "min_score", "min_row_pass_rate", "min_row_score")
        thresholds: dict[str, Any] = {name: flags.pop(name) for name in names}
        baseline = flags.pop("max_regression_vs")
        allowed, significant = flags.pop("max_regression"), flags.pop("only_significant")
        if baseline:
            thresholds["max_regression_vs"] = baseline
            thresholds["max_regression"] = allowed
            thresholds["only_significant"] = str(significant).lower()
        elif allowed or significant:
            raise UsageMistake("--max-regression and --only-significant need --max-regression-vs.")
        given = {name: value for name, value in thresholds.items() if value is not None}
        return cls(given, flags.pop("junit"))

    def __bool__(self) -> bool:
        return bool(self.thresholds) or self.junit is not None

    def judge(self, document: dict[str, Any]) -> Verdict:
        """The platform's verdict on a run, reported where the flags say."""
        run = document["eval_run"]
        verdict = verdict_of(session.api.eval_verdict(str(run["id"]), self.thresholds))
        if self.junit is not None:
            _report(self.junit, document, verdict)
        return verdict


def verdict_section(verdict: Verdict) -> Section:
    """The verdict for people: a line for each threshold, then what to know about it."""
    rows = [(MARKS[check.outcome], check.message) for check in verdict.checks]
    return Section(f"Gate: {verdict.outcome}", rows, [verdict.message, *verdict.notes])


def _report(path: Path, document: dict[str, Any], verdict: Verdict) -> None:
    # Only a report needs it.
    from osmosis.metrics.junit import write_junit

    rollout = (document.get("rollout") or {}).get("name") or "rollout"
    dataset = (document.get("dataset") or {}).get("name") or "dataset"
    run = document["eval_run"]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as out:
            write_junit(
                out,
                name=str(run["name"]),
                group=f"{rollout}.{dataset}",
                verdict=verdict,
                samples=_cases(str(run["id"]), document),
            )
    except OSError as error:
        raise ValidationFailed(f"The report {path} cannot be written: {error.strerror}.") from error


def _cases(run_id: str, document: dict[str, Any]) -> Iterator[SampleCase]:
    # As above.
    from osmosis.client.results import Results
    from osmosis.metrics.junit import SampleCase

    threshold = float(document["results"]["pass_threshold"])
    for sample in Results(session.api, run_id):
        yield SampleCase(
            row_index=sample.row_index,
            run_index=sample.run_index,
            status=sample.status,
            passed=sample.reward is not None and sample.reward >= threshold,
            reward=sample.reward,
            error_type=sample.error_type,
            error_message=sample.error_message,
            duration_ms=sample.duration_ms,
        )
