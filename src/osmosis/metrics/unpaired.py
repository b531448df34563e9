"""The difference of two runs that share no rows: much less can be told than from the same rows."""

from __future__ import annotations

from math import sqrt

from osmosis.metrics.huge import scale_of, within
from osmosis.metrics.intervals import CONFIDENCE, Estimate
from osmosis.metrics.student import t_quantile, t_tail


def welch(baseline: Estimate, candidate: Estimate) -> tuple[float, float, float] | None:
    """The low and high end of the 95 % interval of candidate − baseline, and the p-value.

    Welch's t with the standard errors as they are, clustered ones too, and Satterthwaite's degrees
    of freedom from the numbers of clusters. None when a standard error is missing or both are zero.
    """
    errors = [(e.standard_error, e.clusters) for e in (baseline, candidate)]
    scale = scale_of(max(error or 0.0 for error, _ in errors))
    known = [((error / scale) ** 2, clusters) for error, clusters in errors if error is not None]
    variance = sum(square for square, _ in known)
    if len(known) < 2 or not variance or any(clusters < 2 for _, clusters in known):
        return None
    df = variance**2 / sum(square**2 / (clusters - 1) for square, clusters in known)
    value = candidate.value / scale - baseline.value / scale
    error = sqrt(variance)
    reach = t_quantile(0.5 + CONFIDENCE / 2, df) * error
    low, high = within((value - reach) * scale), within((value + reach) * scale)
    return low, high, 2 * t_tail(abs(value) / error, df)
