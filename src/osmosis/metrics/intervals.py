"""How sure a number is: standard errors and 95 % intervals of rates and means.

Samples of one row are not independent tries, so with several runs per row, or rows that share a
source, the standard error is clustered: residuals are summed within a cluster before they are
squared (Liang and Zeger 1986, with the factor G ÷ (G − 1) for G clusters). With one sample for each
cluster it is the ordinary standard error. For equally many runs per row it is the standard error
of the row means.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist
from sys import float_info
from typing import NamedTuple

from osmosis.metrics.student import t_quantile

CONFIDENCE = 0.95
FLOAT_MAX = float_info.max


class Estimate(NamedTuple):
    """A rate or a mean with its 95 % interval.

    ``samples`` is how many it rests on, ``clusters`` how many independent groups of them.
    ``method``: ``wilson`` or ``t``, with ``-clustered`` when groups hold more than one sample.
    ``standard_error`` is None when one group alone says nothing about the spread.
    """

    value: float
    low: float
    high: float
    standard_error: float | None
    method: str
    samples: int
    clusters: int


def normal_quantile(confidence: float = CONFIDENCE) -> float:
    """How many standard errors a two-sided normal interval reaches: 1.96 at 95 %."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def wilson(passed: float, total: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's score interval of a rate (JASA 22, 1927). ``total`` may be an effective number."""
    if total <= 0:
        return 0.0, 1.0
    z = normal_quantile(confidence)
    rate = passed / total
    middle = (rate + z * z / (2 * total)) / (1 + z * z / total)
    reach = z / (1 + z * z / total) * sqrt(rate * (1 - rate) / total + (z / (2 * total)) ** 2)
    return max(0.0, min(middle - reach, rate)), min(1.0, max(middle + reach, rate))


def rate_estimate(passed: int, total: int, clusters: int, residuals: float) -> Estimate | None:
    """A pass rate with its interval; None without samples.

    ``residuals`` is the sum over clusters of (passes − rate · samples)². Clustered samples count
    as the effective number of independent ones that has the same standard error (Kish's design
    effect), at most as many as there are; when every sample passes or none does, as the number of
    clusters.
    """
    if not total:
        return None
    rate = passed / total
    if clusters == total:
        low, high = wilson(passed, total)
        return Estimate(rate, low, high, sqrt(rate * (1 - rate) / total), "wilson", total, clusters)
    error = clustered_error(residuals, total, clusters)
    effective = min(rate * (1 - rate) / error**2, float(total)) if error else float(clusters)
    low, high = wilson(rate * effective, effective)
    return Estimate(rate, low, high, error, "wilson-clustered", total, clusters)


def mean_estimate(
    mean: float, samples: int, clusters: int, standard_error: float | None
) -> Estimate | None:
    """A mean with its interval by Student's t with clusters − 1 degrees of freedom.

    Two clusters at least; None with fewer, for one value has no interval.
    """
    if clusters < 2 or standard_error is None:
        return None
    reach = t_quantile(0.5 + CONFIDENCE / 2, clusters - 1) * standard_error
    method = "t" if clusters == samples else "t-clustered"
    low, high = (min(max(end, -FLOAT_MAX), FLOAT_MAX) for end in (mean - reach, mean + reach))
    return Estimate(mean, low, high, standard_error, method, samples, clusters)


def clustered_error(residuals: float, samples: int, clusters: int) -> float | None:
    """The standard error of a mean of ``samples`` from the squared sums of cluster residuals."""
    if clusters < 2:
        return None
    return sqrt(max(residuals, 0.0) * clusters / (clusters - 1)) / samples
