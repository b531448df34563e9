"""``osmosis eval samples`` and ``osmosis eval show``: what the agent did, sample by sample."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from osmosis.cli.arguments import UsageMistake
from osmosis.cli.commands.options import latest_argument
from osmosis.cli.output import Column, Detail, Listing, NextStep
from osmosis.cli.output.format import count, milliseconds, money, number, one_line, shortened, text
from osmosis.cli.session import session

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = 500
MAX_STEPS = 200
ERROR_CHARS = 160
PLACE = re.compile(r"(\d{1,9})(?:/(\d{1,9}))?")


@click.command("samples")
@latest_argument
@click.option("--failed", is_flag=True, help="Those below the threshold, and those that broke.")
@click.option("--passed", is_flag=True, help="Those at or above the threshold.")
@click.option("--error", metavar="KIND", help="Those that broke this way, such as timeout.")
@click.option("--row", "rows", metavar="SPEC", help="Only these rows, from 0: 3,7,10-20.")
@click.option("--worst", is_flag=True, help="Graded ones, the lowest reward first.")
@click.option(
    "--limit", type=click.IntRange(1, PAGE), default=50, metavar="N", help="How many to show."
)
@click.option("--all", "everything", is_flag=True, help="Show all of them.")
@click.option("--cursor", metavar="TEXT", help="Go on after an earlier page.")
def samples(
    name: str | None, *, failed: bool, passed: bool, worst: bool, everything: bool, **given: Any
) -> Listing:
    """List the samples of a run, by row and run; without a name, of the latest one."""
    # Only a command that talks to a platform needs it.
    from osmosis.cli.evals.waiting import latest_run
    from osmosis.client.run_files import parse_rows

    if failed and passed:
        raise UsageMistake("--failed and --passed exclude each other.")
    ref = name or latest_run()
    filters = {
        "passed": "true" if passed else "false" if failed else None,
        "error": given["error"],
        "rows": parse_rows(given["rows"]) if given["rows"] else None,
        "order": "reward" if worst else None,
    }
    threshold = _threshold(session.api.eval(ref))
    items: list[dict[str, Any]] = []
    cursor: str | None = given["cursor"]
    while True:
        size = PAGE if everything else given["limit"]
        page = session.api.eval_samples(ref, limit=size, cursor=cursor, **filters)
        items += page["samples"]
        cursor = page["next_cursor"]
        if not everything or cursor is None:
            break
    hints = [NextStep("More:", _again(ref, filters, cursor))] if cursor else []
    if items:
        place = f"{items[0]['row_index']}/{items[0]['run_index']}"
        hints.append(NextStep("Read one:", f"osmosis eval show {ref} {place}"))
    return Listing(
        items=items,
        columns=_columns(threshold, many=any(item["run_index"] for item in items)),
        total_count=len(items),
        has_more=cursor is not None,
        extra={"next_cursor": cursor, "run": ref, **session.context},
        empty="No sample is like that." if any(filters.values()) else "No samples yet.",
        hints=hints,
    )


@click.command("show")
@click.argument("name")
@click.argument("place", metavar="ROW[/RUN]")
@click.option(
    "--from", "start", type=click.IntRange(min=0), default=0, metavar="N",
    help="The first step to show, from 0.",
)  # fmt: skip
@click.option(
    "--steps", type=click.IntRange(1, MAX_STEPS), default=MAX_STEPS, metavar="N",
    help="How many steps to show.",
)  # fmt: skip
def show(name: str, place: str, *, start: int, steps: int) -> Detail:
    """Read one sample: its conversation with tool calls and reasoning, grading and model calls.

    ROW counts the selected rows from 0, RUN the samples of a row from 0.
    """
    # Only this command draws a conversation.
    from osmosis.cli.evals.sample_view import sample_detail

    found = PLACE.fullmatch(place)
    if found is None:
        raise UsageMistake(f"'{place}' names no sample.", hint="Write it like 12 or 12/3.")
    row, run_index = int(found[1]), int(found[2] or 0)
    run = session.api.eval(name)
    sample = session.api.eval_sample(name, row, run_index, **{"from": start, "count": steps})
    return sample_detail(str(run["eval_run"]["name"]), sample, _threshold(run), session.context)


def _columns(threshold: float, *, many: bool) -> tuple[Column, ...]:
    columns = [
        Column("Row", lambda s: text(s.get("row_index")), "right"),
        Column("Run", lambda s: text(s.get("run_index")), "right"),
        Column("Source row", lambda s: text(s.get("source_row")), "right"),
        Column("Status", lambda s: text(s.get("status")), kind="status"),
        Column("Reward", lambda s: number(s.get("reward"), 3), "right"),
        Column("Passed", lambda s: _passed(s, threshold)),
        Column("Tokens", lambda s: count(s.get("tokens")), "right"),
        Column("Cost", lambda s: money(s.get("cost_usd")), "right"),
        Column("Duration", lambda sample: milliseconds(sample.get("duration_ms")), "right"),
        Column("Error", _error, kind="long"),
    ]
    return tuple(c for c in columns if many or c.header != "Run")


def _passed(sample: Mapping[str, Any], threshold: float) -> str:
    if sample.get("status") == "skipped":
        return "-"
    reward = sample.get("reward")
    return "yes" if reward is not None and reward >= threshold else "no"


def _error(sample: Mapping[str, Any]) -> str:
    if not sample.get("error_type"):
        return ""
    said = f"{sample['error_type']}: {sample.get('error_message') or ''}"
    return shortened(one_line(said), ERROR_CHARS)


def _threshold(document: Mapping[str, Any]) -> float:
    return float(document["results"]["pass_threshold"])


def _again(ref: str, filters: Mapping[str, Any], cursor: str) -> str:
    words = [f"osmosis eval samples {ref}"]
    if filters["passed"]:
        words.append("--passed" if filters["passed"] == "true" else "--failed")
    words += [
        f"--{flag} {filters[key]}"
        for flag, key in (("error", "error"), ("row", "rows"))
        if filters[key]
    ]
    if filters["order"]:
        words.append("--worst")
    return " ".join([*words, f"--cursor {cursor}"])
