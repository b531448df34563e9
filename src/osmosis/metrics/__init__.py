"""The one truth for every number of a run: pure functions, used by API, pages and downloads."""

from osmosis.metrics.error_types import category_of, is_infrastructure
from osmosis.metrics.histogram import Histogram, histogram
from osmosis.metrics.pass_at_k import PassAtK, pass_at_k_points, pass_at_k_value
from osmosis.metrics.summary import RewardStats, SampleOutcome, Summary, Tally, summarize

__all__ = [
    "Histogram",
    "PassAtK",
    "RewardStats",
    "SampleOutcome",
    "Summary",
    "Tally",
    "category_of",
    "histogram",
    "is_infrastructure",
    "pass_at_k_points",
    "pass_at_k_value",
    "summarize",
]
