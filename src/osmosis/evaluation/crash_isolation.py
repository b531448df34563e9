"""Finds the sample that takes the rollout process down, without blaming its neighbours.

The process dies with several samples in it: they are split into halves, and each half runs
alone. A half that lives is innocent; one that dies is split again. A sample that was alone in
two deaths is guilty. A process killed from outside looks like a crash, so one lone death proves
nothing, and SIGKILL, which is how an operator or the out-of-memory killer ends a process, needs
more of them.

A blocked event loop is different: it takes long to be sure of it, and an innocent sample is done
much sooner. So the suspects run one by one, and the first that blocks the loop alone, beyond its
own limits, is guilty: nobody else can hold it then. The suspects behind it are let go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from osmosis.evaluation.sample import Sample

LONE_DEATHS_TO_CONVICT = 2
LONE_KILLS_TO_CONVICT = 4
MAX_FRUITLESS_RESTARTS = 5
"""Restarts in a row without any finished sample, beyond those that halving itself needs."""

Cause = Literal["died", "killed", "blocked"]


@dataclass(slots=True, frozen=True)
class Verdict:
    """``guilty`` is to be recorded as failed; ``groups`` run next, each by itself."""

    guilty: Sample | None = None
    groups: list[list[Sample]] = field(default_factory=list)


class CrashIsolation:
    """What to do with the samples that were in the process when it died."""

    def __init__(self, in_flight: int) -> None:
        self._max_restarts = MAX_FRUITLESS_RESTARTS + 2 * in_flight.bit_length()
        self._restarts = 0

    @property
    def hopeless(self) -> bool:
        """True once restarts keep bringing no result."""
        return self._restarts > self._max_restarts

    @property
    def restarts(self) -> int:
        """Deaths since a sample last got its result."""
        return self._restarts

    def sample_finished(self) -> None:
        """A sample got a result from the rollout: the restarts were worth it."""
        self._restarts = 0

    def process_lost(self, lost: list[Sample], cause: Cause) -> Verdict:
        """Judge the samples that a death took with it; there may be none."""
        self._restarts += 1
        if not lost:
            return Verdict()
        if len(lost) > 1 and cause == "blocked":
            return Verdict(groups=[[sample] for sample in lost])
        if len(lost) > 1:
            middle = (len(lost) + 1) // 2
            return Verdict(groups=[lost[:middle], lost[middle:]])
        suspect = lost[0]
        suspect.lone_deaths += 1
        needed = {
            "died": LONE_DEATHS_TO_CONVICT,
            "killed": LONE_KILLS_TO_CONVICT,
            "blocked": 1,
        }[cause]
        if suspect.lone_deaths >= needed:
            return Verdict(guilty=suspect)
        return Verdict(groups=[[suspect]])
