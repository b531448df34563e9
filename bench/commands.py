"""What a user waits for at the terminal."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.report import median, report
from lab.platform import OSMOSIS, ROOT
from lab.workspace import Workspace

RUNS = 5


def commands(workspace: Workspace) -> None:
    """Prints the time of the commands that are called most."""
    for name, words in (("cli_help_s", ["--help"]), ("cli_list_s", ["eval", "list"])):
        taken = command_s(
            [OSMOSIS, *words], cwd=workspace.directory, env=workspace.lab.env, runs=RUNS
        )
        report(name, taken, "s", runs=RUNS)


def demo() -> None:
    """Prints the time of the whole demo, installed."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "demo", "--once"], cwd=ROOT, check=True, capture_output=True
    )
    report("demo_once_s", time.perf_counter() - started, "s", installed=True)


def command_s(argv: list[str | Path], *, cwd: Path, env: dict[str, str], runs: int) -> float:
    """Median wall seconds of a command, after one call that is not counted."""
    taken: list[float] = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        subprocess.run(list(map(str, argv)), cwd=cwd, env=env, check=True, capture_output=True)
        taken.append(time.perf_counter() - started)
    return median(taken[1:])
