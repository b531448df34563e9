"""A run's score and pass rate when rows of one group are not independent of each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osmosis.metrics.huge import scale_of, within
from osmosis.metrics.intervals import Estimate, clustered_error, mean_estimate, rate_estimate
from osmosis.metrics.paired import MANY_GROUPS, Floats, bca_interval, grouped
from osmosis.metrics.row_table import SampleColumns


def grouped_estimates(
    samples: SampleColumns, groups: NDArray[Any], *, pass_threshold: float
) -> dict[str, Estimate]:
    """``pass_rate``, ``score`` and ``score_bootstrap`` with the groups as clusters.

    ``groups`` gives the group of each row of the dataset. The bootstrap (bias-corrected and
    accelerated, over groups, seeded) stands beside Student's t up to :data:`MANY_GROUPS` groups.
    """
    counted = ~samples.skipped
    passes = (samples.reward >= pass_threshold)[counted].astype(np.float64)
    found: dict[str, Estimate | None] = {}
    if len(passes):
        sums, counts = grouped(passes, groups[samples.source_row[counted]])
        total, passed = len(passes), int(passes.sum())
        found["pass_rate"] = rate_estimate(
            passed, total, len(sums), _squares(sums, counts, passed / total)
        )
    graded = counted & ~np.isnan(samples.reward)
    rewards = samples.reward[graded]
    if len(rewards):
        scale = scale_of(float(np.abs(rewards).max()))
        sums, counts = grouped(rewards / scale, groups[samples.source_row[graded]])
        mean, clusters = float((rewards / scale).mean()), len(sums)
        error = clustered_error(_squares(sums, counts, mean), len(rewards), clusters)
        found["score"] = score = mean_estimate(
            mean * scale, len(rewards), clusters, None if error is None else within(error * scale)
        )
        if score is not None and error and clusters <= MANY_GROUPS:
            low, high = (within(end * scale) for end in bca_interval(sums, counts))
            found["score_bootstrap"] = score._replace(low=low, high=high, method="bca-bootstrap")
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _squares(sums: Floats, counts: Floats, mean: float) -> float:
    residuals = sums - mean * counts
    return float(residuals @ residuals)
