"""Says in the run's log what a provider refuses and what follows, a line now and then.

Thousands of calls may be refused in a minute: they are counted, and told together.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from time import monotonic
from typing import Any

from osmosis.evaluation.limits import CallFailure
from osmosis.evaluation.plan import Sink

STEP = "limits"
GATHER_S = 1.0
"""A burst of refusals is told as one."""
EVERY_S = 15.0


class LimitLog:
    """The listener of one limiter; ``provider`` is its name for people."""

    def __init__(self, provider: str, sink: Sink) -> None:
        self._provider = provider
        self._sink = sink
        self._counts: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._before: int | None = None
        self._after = 0
        self._least: int | None = None
        self._asked_s = 0.0
        self._told_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def failed(self, failure: CallFailure, before: int, after: int) -> None:
        """An attempt failed; the width went from ``before`` to ``after``."""
        if not (failure.limited or failure.retryable):
            return
        label = str(failure.status) if failure.status is not None else failure.kind
        self._counts[label] += 1
        self._total[label] += 1
        self._asked_s = max(self._asked_s, failure.retry_after_s or 0.0)
        if failure.limited:
            if self._before is None:
                self._before = before
            self._after = after
            self._least = after if self._least is None else min(self._least, after)
        if self._timer is None:
            due_s = max(GATHER_S, self._told_at + EVERY_S - monotonic())
            self._timer = asyncio.get_running_loop().call_later(due_s, self._tell)

    def close(self) -> None:
        """Tell what is untold, and the sum of all."""
        if self._timer is not None:
            self._timer.cancel()
            self._tell()
        if self._total:
            least = f"; at the least {self._least} calls at once" if self._least else ""
            self._sink.log(
                "info",
                STEP,
                f"In all, the provider {self._provider} failed {self._total.total()} attempts at "
                f"calls in ways that may pass ({_listed(self._total)}){least}.",
            )

    def _tell(self) -> None:
        self._timer, self._told_at = None, monotonic()
        text = f"The provider {self._provider} answers {_listed(self._counts)}"
        details: dict[str, Any] = {"provider": self._provider, "answers": dict(self._counts)}
        if self._before is not None:
            details["calls_at_once"] = self._after
            if self._after < self._before:
                text += f": {self._before} -> {self._after} calls at once"
        if self._asked_s >= 1.0:
            text += f"; it asks to wait {self._asked_s:.0f} s"
        self._sink.log(
            "warning",
            STEP,
            f"{text}. New samples wait while calls queue.",
            details,
        )
        self._counts.clear()
        self._before, self._asked_s = None, 0.0


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{label} ×{count}" for label, count in counts.most_common())
