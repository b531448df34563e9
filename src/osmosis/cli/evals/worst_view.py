"""The samples of a run that scored least, for people who look at its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osmosis.cli.evals.run_view import part
from osmosis.cli.output import Section
from osmosis.cli.output.format import number
from osmosis.cli.output.mode import output
from osmosis.cli.session import session
from osmosis.wire.errors import OsmosisError

SHOWN = 5


def worst_section(document: Mapping[str, Any]) -> Section | None:
    """The lowest rewards below the threshold, each with the command that shows it.

    None for programs, which list what they want, and where every graded sample passed.
    """
    run, results = part(document, "eval_run"), part(document, "results")
    if output.mode == "json" or results.get("passed") == results.get("graded"):
        return None
    try:
        page = session.api.eval_samples(str(run["id"]), order="reward", limit=SHOWN)
    except OsmosisError:
        return None  # another platform may not order samples; the numbers stand without them
    threshold = float(results["pass_threshold"])
    rows = [
        (f"row {item['row_index']}/{item['run_index']}", f"reward {number(item['reward'])}")
        for item in page["samples"]
        if item["reward"] < threshold
    ]
    command = f"osmosis eval show {run['name']} ROW/RUN"
    return Section("Worst samples", rows, [f"Read one: {command}"]) if rows else None
