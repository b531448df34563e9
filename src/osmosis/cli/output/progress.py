"""Live progress on stderr: a bar on a terminal, nothing else where nobody watches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

from osmosis.cli.output.mode import output

SHOWN_FROM_BYTES = 4_000_000


@contextlib.contextmanager
def transfer_progress(name: str, total_bytes: int) -> Generator[Callable[[int], None]]:
    """A callback that takes the bytes moved so far; small amounts go without a bar."""
    if not output.live or total_bytes < SHOWN_FROM_BYTES:
        yield lambda moved: None
        return
    # Only a transfer that is watched pays for this import.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(name, total=total_bytes)
        yield lambda moved: bar.update(task, completed=moved)
