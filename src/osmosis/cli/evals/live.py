"""The changing line of ``--watch`` on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from osmosis.cli.evals.run_view import TERMINAL, part, progress, run_seconds, status_text
from osmosis.cli.evals.watch import numbers
from osmosis.cli.output.format import printable, seconds


class LiveScreen:
    """A bar with the stage, the samples, the running numbers and the time left."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[samples]}", markup=False),
            TextColumn("{task.fields[numbers]}", markup=False),
            TextColumn("{task.fields[clock]}", style="dim", markup=False),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("waiting", total=None, samples="", numbers="", clock="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def update(self, document: Mapping[str, Any]) -> None:
        run, results = part(document, "eval_run"), part(document, "results")
        done, total = progress(results, document.get("config"))
        spent = run_seconds(run)
        clock = seconds(spent) if spent is not None else ""
        left = _seconds_left(run, done, total)
        if left is not None:
            clock += f", about {seconds(left)} left"
        started = done > 0 or run.get("status") in TERMINAL
        self._bar.update(
            self._task,
            description=status_text(run),
            completed=done,
            total=total if started else None,
            samples=f"{done:,}/{total:,}" if total else "",
            numbers=numbers(results) if done else printable(str(run.get("waiting_for") or "")),
            clock=clock,
        )

    def say(self, line: str) -> None:
        self._bar.console.print(Text(printable(line), style="yellow"))


def _seconds_left(run: Mapping[str, Any], done: int, total: int | None) -> float | None:
    spent = run_seconds(run)
    if run.get("status") in TERMINAL or not total or done < max(3, total // 20) or spent is None:
        return None
    return spent / done * (total - done)
