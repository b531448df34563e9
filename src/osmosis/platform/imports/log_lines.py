"""Reading ``logs.txt`` of a local run: ``TIME LEVEL [step] message``."""

from __future__ import annotations

import re
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MAX_LINES = 5000
MAX_CHARS = 16_000
LINE = re.compile(r"(\S+) (DEBUG|INFO|WARNING|ERROR) \[([^\]]{1,100})\] (.*)", re.DOTALL)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The last lines as entries of a run's log; a line in no known form belongs to none."""
    last: deque[dict[str, Any]] = deque(maxlen=MAX_LINES)
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            found = LINE.fullmatch(line[:MAX_CHARS].rstrip("\n"))
            moment = _moment(found[1]) if found else None
            if found and moment:
                level, step, message = found[2].lower(), found[3], found[4].replace("\0", "")
                last.append({"timestamp": moment, "level": level, "step": step, "message": message})
    return list(last)


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
