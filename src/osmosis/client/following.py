"""Following a run: its document again and again, until it has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from osmosis.client.api import Api
from osmosis.wire.errors import Unreachable

TERMINAL = ("finished", "failed", "stopped")
POLL_S = 0.5
GIVE_UP_S = 60.0


def follow(
    api: Api, ref: str, *, every_s: float = POLL_S, give_up_s: float = GIVE_UP_S
) -> Iterator[dict[str, Any]]:
    """The run's document, read every ``every_s`` seconds; the last one is of a run that ended.

    A server that is away for a moment is waited for, ``give_up_s`` seconds at most.
    """
    lost_since: float | None = None
    while True:
        try:
            document = api.eval(ref)
        except Unreachable:
            lost_since = lost_since or time.monotonic()
            if time.monotonic() - lost_since > give_up_s:
                raise
        else:
            lost_since = None
            yield document
            if status_of(document) in TERMINAL:
                return
        time.sleep(every_s)


def status_of(document: Mapping[str, Any]) -> str:
    """The status in a run's document."""
    run = document.get("eval_run")
    return str(run.get("status")) if isinstance(run, Mapping) else "unknown"
