"""The difference of two runs that share no rows: much less can be told than from the same rows."""

from __future__ import annotations

from math import sqrt

from osmosis.metrics.intervals import CONFIDENCE, Estimate
from osmosis.metrics.student import t_quantile, t_tail


def welch(baseline: Estimate, candidate: Estimate) -> tuple[float, float, float] | None:
    """The low and high end of the 95 % interval of candidate − baseline, and the p-value.

    Welch's t with the standard errors as they are, clustered ones too, and Satterthwaite's degrees
    of freedom from the numbers of clusters. None when a standard error is missing or both are zero.
    """
    errors = [(e.standard_error, e.clusters) for e in (baseline, candidate)]
    known = [(error**2, clusters) for error, clusters in errors if error is not None]
    variance = sum(square for square, _ in known)
    if len(known) < 2 or not variance or any(clusters < 2 for _, clusters in known):
        return None
    df = variance**2 / sum(square**2 / (clusters - 1) for square, clusters in known)
    value, error = candidate.value - baseline.value, sqrt(variance)
    reach = t_quantile(0.5 + CONFIDENCE / 2, df) * error
    return value - reach, value + reach, 2 * t_tail(abs(value) / error, df)
