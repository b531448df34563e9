"""How this process talks: rich for people, plain for pipes, JSON for programs."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Literal

Mode = Literal["rich", "plain", "json"]

WIDE_COLUMNS = 200


@dataclass
class Output:
    """The mode of the running command, set once from the command line."""

    mode: Mode = "rich"
    command: str = ""

    @property
    def interactive(self) -> bool:
        """Whether somebody is there to answer a question."""
        return self.mode == "rich" and sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def live(self) -> bool:
        """Whether stderr is a terminal that can redraw."""
        return self.mode == "rich" and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


output = Output()
"""The one output of this process."""


def width(stream_is_terminal: bool) -> int | None:
    """Columns to draw in: the terminal's; wide for a pipe, so that nothing is cut."""
    if stream_is_terminal or os.environ.get("COLUMNS"):
        return None
    return WIDE_COLUMNS
