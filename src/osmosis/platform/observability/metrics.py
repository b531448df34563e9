"""The server's metrics. Every label is from a fixed, short set: no run, model or workspace name.

Counters and histograms move as things happen; what the database knows better (how many runs are
in which state) is asked when somebody scrapes (:mod:`.census`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.process_collector import ProcessCollector

import osmosis
from osmosis.event_loop import LoopLag
from osmosis.platform.observability.providers import provider_name
from osmosis.wire.failure_policy import CALL_POLICIES
from osmosis.wire.samples import ModelCall, SampleRecord

COMMIT_BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
REQUEST_BUCKETS_S = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
CALL_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 1200)
SHARD_LAG_KEPT_S = 30.0
REMEMBERED_SHARDS = 4096
OTHER = "other"


class Metrics:
    """All of them, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.lag = LoopLag()
        self._shard_lags: dict[str, tuple[float, float]] = {}
        ProcessCollector(registry=registry)
        Info("osmosis_build", "The server's version.", registry=registry).info(
            {"version": osmosis.__version__}
        )

        self.runs = Gauge("osmosis_runs", "Runs by status.", ["status"], registry=registry)
        self.samples = Gauge(
            "osmosis_samples", "Recorded samples by status.", ["status"], registry=registry
        )
        self.queue_depth = Gauge(
            "osmosis_queue_depth", "Runs that wait for a worker.", registry=registry
        )
        self.queue_age = Gauge(
            "osmosis_queue_age_seconds", "How long the oldest of them waits.", registry=registry
        )
        self.in_flight = Gauge(
            "osmosis_samples_in_flight", "Samples being executed now.", registry=registry
        )
        self.jobs = Gauge("osmosis_jobs", "Jobs by status.", ["status"], registry=registry)
        self.free_disk = Gauge(
            "osmosis_data_free_bytes", "Room left for the data directory.", registry=registry
        )
        Gauge(
            "osmosis_event_loop_lag_seconds",
            "How late the server's event loop was, at worst, in the last second.",
            registry=registry,
        ).set_function(lambda: self.lag.worst_s)
        Gauge(
            "osmosis_shard_event_loop_lag_seconds",
            "The same for the worst of the shards that execute runs.",
            registry=registry,
        ).set_function(self._worst_shard_lag)

        self.claims = Counter(
            "osmosis_claims", "Runs taken by workers.", ["kind"], registry=registry
        )
        self.leases_lost = Counter(
            "osmosis_leases_lost",
            "Runs whose worker was lost or did not obey.",
            ["reason"],
            registry=registry,
        )
        self.samples_recorded = Counter(
            "osmosis_samples_recorded", "Samples recorded, by status.", ["status"],
            registry=registry,
        )  # fmt: skip
        self.duplicates = Counter(
            "osmosis_records_repeated", "Records that were there already.", registry=registry
        )
        self.commit = Histogram(
            "osmosis_records_commit_seconds",
            "From a batch of records to its commit.",
            buckets=COMMIT_BUCKETS_S,
            registry=registry,
        )
        self.storage_failures = Counter(
            "osmosis_storage_failures", "Writes that the disk refused.", registry=registry
        )
        self.lost_calls = Counter(
            "osmosis_lost_model_calls",
            "Model calls that may have been charged and belong to no sample.",
            registry=registry,
        )
        self.spans_dropped = Counter(
            "osmosis_trace_spans_dropped",
            "Spans left out because the collector did not keep up.",
            registry=registry,
        )
        provider = ["provider", "route"]
        self.calls = Counter(
            "osmosis_model_calls", "Model calls of recorded samples.", [*provider, "status"],
            registry=registry,
        )  # fmt: skip
        self.call_latency = Histogram(
            "osmosis_model_call_seconds",
            "Latency of model calls, without our own queue.",
            provider,
            buckets=CALL_BUCKETS_S,
            registry=registry,
        )
        self.call_queue = Histogram(
            "osmosis_model_call_queue_seconds",
            "How long model calls waited for our own limiter.",
            provider,
            buckets=CALL_BUCKETS_S,
            registry=registry,
        )
        self.tokens = Counter(
            "osmosis_model_tokens", "Tokens of model calls.", [*provider, "type"],
            registry=registry,
        )  # fmt: skip
        self.cost = Counter(
            "osmosis_model_cost_usd", "Cost of model calls of known price.", provider,
            registry=registry,
        )  # fmt: skip
        self.requests = Counter(
            "osmosis_http_requests", "HTTP requests.", ["method", "route", "status"],
            registry=registry,
        )  # fmt: skip
        self.request_time = Histogram(
            "osmosis_http_request_seconds",
            "From a request to the end of its answer.",
            ["route"],
            buckets=REQUEST_BUCKETS_S,
            registry=registry,
        )

        for kind in ("first", "takeover", "again"):
            self.claims.labels(kind)
        for reason in ("died", "silent", "disobeyed_stop"):
            self.leases_lost.labels(reason)
        for status in ("success", "failed", "skipped"):
            self.samples_recorded.labels(status)

    def recorded(self, records: Iterable[SampleRecord]) -> None:
        """Count samples that were recorded just now, with their model calls."""
        for record in records:
            self.samples_recorded.labels(record.status).inc()
            for call in record.calls:
                self._called(call)

    def shard_lag(self, run_id: str, lag_s: float) -> None:
        """Remember the lag that a worker reported for the shard of a run."""
        if len(self._shard_lags) >= REMEMBERED_SHARDS:
            self._shard_lags.clear()
        self._shard_lags[run_id] = (lag_s, time.monotonic())

    def _worst_shard_lag(self) -> float:
        oldest = time.monotonic() - SHARD_LAG_KEPT_S
        self._shard_lags = {
            run: known for run, known in self._shard_lags.items() if known[1] > oldest
        }
        return max((lag_s for lag_s, _ in self._shard_lags.values()), default=0.0)

    def _called(self, call: ModelCall) -> None:
        labels = (provider_name(call.model), call.route)
        self.calls.labels(*labels, _status(call)).inc()
        self.call_latency.labels(*labels).observe(call.latency_s)
        self.call_queue.labels(*labels).observe(call.queue_s)
        if call.prompt_tokens:
            self.tokens.labels(*labels, "input").inc(call.prompt_tokens)
        if call.completion_tokens:
            self.tokens.labels(*labels, "output").inc(call.completion_tokens)
        if call.cost_usd:
            self.cost.labels(*labels).inc(call.cost_usd)


def _status(call: ModelCall) -> str:
    if call.error_kind is None:
        return "ok"
    return call.error_kind if call.error_kind in CALL_POLICIES else OTHER
