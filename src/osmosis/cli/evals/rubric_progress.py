"""The changing line of ``eval rubric`` on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from osmosis.cli.evals.rubric_view import without_score
from osmosis.rubric.judging import Counts


@contextlib.contextmanager
def bar(total: int) -> Generator[Callable[[Counts], None]]:
    """A callback that moves the bar; what has no score is counted beside it."""
    progress = Progress(
        TextColumn("judging", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[missing]}", markup=False, style="yellow"),
        TimeRemainingColumn(),
        console=Console(stderr=True, highlight=False),
        transient=True,
    )
    with progress:
        task = progress.add_task("", total=total, missing="")
        yield lambda counts: progress.update(
            task, completed=counts.done, missing=without_score(counts)
        )
