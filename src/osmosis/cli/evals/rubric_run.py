"""``eval rubric``: flags become judges and a task, the records are judged, a report is made."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from osmosis.cli.arguments import UsageMistake
from osmosis.cli.evals import rubric_view
from osmosis.cli.output import Operation
from osmosis.cli.output.format import plural
from osmosis.cli.output.messages import note, warn
from osmosis.cli.output.mode import output
from osmosis.cli.output.render import show
from osmosis.evaluation.redaction import Redactor
from osmosis.rubric.conversations import count_records, read_records, require_usable
from osmosis.rubric.errors import MissingAPIKeyError, ModelNotFoundError
from osmosis.rubric.journal import Journal, journal_path
from osmosis.rubric.judge import Judge
from osmosis.rubric.judging import Counts, Judging
from osmosis.rubric.models import open_link
from osmosis.rubric.prompt import Task
from osmosis.rubric.report import Finished, build_report, report_path, write_report
from osmosis.rubric.request_shape import RequestShape
from osmosis.wire.errors import NotFound, OsmosisError, RunFailed, ValidationFailed

PLAIN_EVERY_S = 10.0


class ScoresMissing(OsmosisError):
    """Some records have no score; the report was made all the same."""

    code = "PLATFORM_ERROR"


def run(
    data: Path,
    rubric: str,
    models: Sequence[str],
    score_min: float,
    score_max: float,
    *,
    number: int,
    output: str | None,
    timeout: float | None,
    base_url: str | None,
    api_key: str | None,
    concurrency: int,
    max_retries: int,
    temperature: float,
    max_tokens: int | None,
    show_conversation: bool,
    fresh: bool,
) -> Operation:
    """Judge and report; raises ScoresMissing when a score is missing."""
    if not (math.isfinite(score_min) and math.isfinite(score_max) and score_min < score_max):
        raise UsageMistake("--score-max must be greater than --score-min.")
    if timeout is not None and not math.isfinite(timeout):
        raise UsageMistake("--timeout is a number of seconds.")
    if len(set(models)) < len(models):
        raise UsageMistake("Each --model must be another one. For repeats there is -n.")
    task = Task(_rubric(rubric), score_min, score_max)
    total = count_records(data) * number * len(models)
    require_usable(data)
    if api_key:
        warn("DEPRECATION", "--api-key is seen by others in the process list; set the variable.")
    target = report_path(output) if output else None

    async def judge_all() -> Finished:
        links = [
            await open_link(
                name,
                variables=os.environ,
                base_url=base_url,
                api_key=api_key,
                timeout_s=timeout,
                concurrency=concurrency,
                max_retries=max_retries,
            )
            for name in models
        ]
        for link in links:
            await link.prepare()
        shape = RequestShape(temperature=temperature, max_tokens=max_tokens)
        judges = [Judge(link, shape) for link in links]
        redactor = Redactor(link.secret for link in links)
        with _journal(target, redactor, fresh=fresh) as journal, _progress(total) as told:
            judging = Judging(
                judges,
                task,
                number=number,
                concurrency=concurrency,
                journal=journal,
                on_progress=told,
            )
            try:
                await judging.run(read_records(data, with_conversation=show_conversation))
            except asyncio.CancelledError:
                _tell_interrupted(judging.counts, total, kept=target is not None)
                raise
            finally:
                for link in links:
                    await link.close()
        return Finished(judges, task, str(data), number, judging.outcomes, judging.counts, redactor)

    try:
        finished = asyncio.run(judge_all())
    except MissingAPIKeyError as missing:
        raise ValidationFailed(
            f"The judge's provider '{missing.provider}' needs an API key, and "
            f"{missing.variable} is not set.",
            hint=f"export {missing.variable}=…, or put it into a .env file here.",
        ) from None
    except ModelNotFoundError as unknown:
        raise ValidationFailed(f"--model {unknown.model}: {unknown.detail}") from None
    except RunFailed as failed:
        raise ValidationFailed(
            f"A judge cannot be used: {failed.message}", hint=failed.hint
        ) from None
    report = build_report(finished)
    if target is not None:
        write_report(target, report)
        if finished.error_count == 0:
            journal_path(target).unlink(missing_ok=True)
    return _result(finished, report, target)


def _result(finished: Finished, report: dict[str, Any], target: Path | None) -> Operation:
    operation = rubric_view.operation(finished, report, target)
    if finished.error_count == 0:
        return operation
    if output.mode != "json":
        show(operation)
    again = " The same command asks again for what is missing." if target else ""
    missing = plural(finished.error_count, "score")
    raise ScoresMissing(
        f"{missing} missing: {operation.message}",
        hint=f"The reasons are in the report.{again}",
        details=dict(operation.resource or {}),
    )


def _rubric(given: str) -> str:
    text = given
    if given.startswith("@"):
        path = Path(given[1:]).expanduser()
        try:
            text = path.read_text("utf-8-sig")
        except FileNotFoundError:
            raise NotFound(f"There is no file {path}.", hint="Check --rubric.") from None
        except (OSError, UnicodeDecodeError):
            raise ValidationFailed(f"Cannot read {path} as UTF-8 text.") from None
    if not text.strip():
        raise ValidationFailed("The rubric is empty.", hint="--rubric takes a text, or @FILE.")
    return text.strip()


@contextlib.contextmanager
def _journal(target: Path | None, redactor: Redactor, *, fresh: bool) -> Generator[Journal | None]:
    if target is None:
        yield None
        return
    with Journal(journal_path(target), redactor, fresh=fresh) as journal:
        if journal.kept:
            note(f"{plural(len(journal.kept), 'score')} of an earlier, unfinished run is at hand.")
        yield journal


@contextlib.contextmanager
def _progress(total: int) -> Generator[Callable[[Counts], None]]:
    """A bar on a terminal, now and then a line elsewhere; nothing for programs."""
    if not output.live:
        last = time.monotonic()

        def told(counts: Counts) -> None:
            nonlocal last
            if time.monotonic() - last >= PLAIN_EVERY_S:
                last = time.monotonic()
                note(f"{counts.done:,}/{total:,} judged{rubric_view.without_score(counts)}")

        yield told
        return
    # Only a person at a terminal pays for this import.
    from osmosis.cli.evals.rubric_progress import bar

    with bar(total) as update:
        yield update


def _tell_interrupted(counts: Counts, total: int, *, kept: bool) -> None:
    note(f"\n{counts.done:,} of {total:,} judged.")
    if kept:
        note("The scores are kept; the same command goes on from them.")
    else:
        note("Nothing is kept without -o.")
