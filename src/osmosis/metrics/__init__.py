"""The one truth for every number of a run: pure functions, used by API, pages and downloads."""

from osmosis.metrics.error_types import category_of, is_infrastructure
from osmosis.metrics.histogram import Histogram, histogram
from osmosis.metrics.intervals import Estimate, wilson
from osmosis.metrics.pass_at_k import (
    PassAtK,
    pass_at_k_points,
    pass_at_k_value,
    pass_hat_k_points,
    pass_hat_k_value,
)
from osmosis.metrics.summary import (
    DEFINITION_VERSION,
    MetricStats,
    RewardStats,
    Spread,
    Summary,
    summarize,
    summary_of,
    tally_of,
)
from osmosis.metrics.tally import RowTotals, SampleOutcome, Tally

__all__ = [
    "DEFINITION_VERSION",
    "Estimate",
    "Histogram",
    "MetricStats",
    "PassAtK",
    "RewardStats",
    "RowTotals",
    "SampleOutcome",
    "Spread",
    "Summary",
    "Tally",
    "category_of",
    "histogram",
    "is_infrastructure",
    "pass_at_k_points",
    "pass_at_k_value",
    "pass_hat_k_points",
    "pass_hat_k_value",
    "summarize",
    "summary_of",
    "tally_of",
    "wilson",
]
