"""``osmosis eval compare``: what changed between runs, and whether chance explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from osmosis.cli.arguments import UsageMistake
from osmosis.cli.session import session

if TYPE_CHECKING:
    from osmosis.cli.output import Detail

MAX_ROWS = 500


@click.command()
@click.argument("baseline")
@click.argument("candidates", nargs=-1, metavar="CANDIDATE...")
@click.option(
    "--cluster-by",
    metavar="COLUMN",
    help="Rows that share this column of the dataset are not independent.",
)
@click.option(
    "--rows",
    type=click.IntRange(0, MAX_ROWS),
    default=20,
    metavar="N",
    help="How many fixed and broken rows --json lists.",
)
def compare(
    baseline: str, candidates: tuple[str, ...], *, cluster_by: str | None, rows: int
) -> Detail:
    """Compare runs with a baseline, row by row.

    Says how far apart they are, with a 95% interval and a p-value, which rows were fixed and
    broken, what it costs, and what may and may not be concluded.
    """
    if not candidates:
        raise UsageMistake("eval compare needs two runs at least: the baseline, then the others.")
    # Only a comparison needs it.
    from osmosis.cli.evals.compare_view import compare_detail

    body: dict[str, Any] = {"runs": [baseline, *candidates], "rows": rows}
    if cluster_by:
        body["cluster_by"] = cluster_by
    return compare_detail(session.api.compare_evals(body), session.context)
