"""Whether a candidate is worse than a baseline by more than is allowed: one verdict for gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from osmosis.metrics.paired import Difference

RegressionStatus = Literal["held", "regressed", "unclear"]


@dataclass(frozen=True)
class RegressionVerdict:
    """``held``: no fall beyond the allowed one is credible. ``regressed``: a greater fall is
    certain at 95 %. ``unclear``: the rows are too few to tell either; ``fell`` says whether the
    observed difference itself is beyond what is allowed."""

    status: RegressionStatus
    fell: bool
    difference: Difference


def judge_regression(difference: Difference, allowed_fall: float = 0.0) -> RegressionVerdict:
    """Judge candidate − baseline against a fall of at most ``allowed_fall`` (a fraction, ≥ 0)."""
    if allowed_fall < 0:
        raise ValueError(f"an allowed fall of {allowed_fall} is negative")
    fell = difference.value < -allowed_fall
    if difference.low is None or difference.high is None:
        status: RegressionStatus = "unclear"
    elif difference.low >= -allowed_fall:
        status = "held"
    elif difference.high < -allowed_fall:
        status = "regressed"
    else:
        status = "unclear"
    return RegressionVerdict(status, fell, difference)
