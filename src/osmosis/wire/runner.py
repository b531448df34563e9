"""The runner API: what a worker and the platform say to each other under ``/api/runner``.

Every call carries ``Authorization: Bearer <worker token>``; every call about a claimed run also
carries ``X-Osmosis-Lease: <lease token>`` and is answered 409 ``LEASE_LOST`` once the lease
belongs to somebody else, after which the worker must drop the run at once.

    POST /api/runner/claim                     ClaimRequest -> 200 Claim | 204 after wait_s
    POST /api/runner/runs/{id}/heartbeat       HeartbeatRequest -> Heartbeat
    GET  /api/runner/runs/{id}/code            tar stream of the commit's tree (uncompressed)
    GET  /api/runner/runs/{id}/rows            NDJSON of RowItem, in row_index order; with
                                               ?first=I&step=K only the rows I, I+K, I+2K, …
    GET  /api/runner/runs/{id}/done            NDJSON of [row_index, run_index] already recorded
    GET  /api/runner/runs/{id}/stored/{row}/{run}  SampleRecord of a sample to be graded again
    GET  /api/runner/runs/{id}/artifacts/{rollout_id}/{path}   raw bytes of such a sample
    POST /api/runner/runs/{id}/records         NDJSON of SampleRecord -> RecordsAck (after commit)
    POST /api/runner/runs/{id}/logs            LogBatch -> {}
    PUT  /api/runner/runs/{id}/artifacts/{rollout_id}/{path}   raw bytes -> {}
    GET  /api/runner/runs/{id}/replays/{other}      NDJSON of [source_row, run_index, kept calls]
    GET  /api/runner/runs/{id}/responses/{key}      a cached response of the workspace, or 204
    PUT  /api/runner/runs/{id}/responses/{key}      raw bytes -> {}
    POST /api/runner/runs/{id}/finish          FinishRequest -> {}
    POST /api/runner/runs/{id}/lost-calls      LostCalls -> {}; needs no lease, counts a shard once
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from osmosis.wire.spending import Spending

LEASE_HEADER = "X-Osmosis-Lease"

Stage = Literal[
    "queued",
    "cloning",
    "installing",
    "checking model",
    "starting rollout",
    "running",
    "summarizing",
]


class ClaimRequest(BaseModel):
    """``worker_id`` is ``HOST-PID-RANDOM``: by it the platform sees at once that a worker on its
    own machine has died, and need not wait for the lease to run out. ``holding`` are the runs it
    has: one that is leased to it and not among them was given in an answer that got lost."""

    worker_id: str
    wait_s: float = Field(default=20.0, ge=0, le=60)
    holding: list[str] | None = Field(default=None, max_length=4096)


class ModelEndpoint(BaseModel):
    """A named endpoint of the workspace (``osmosis model endpoint add``)."""

    name: str
    base_url: str
    model: str | None = None
    api_key: str | None = None


class ReplayedRun(BaseModel):
    """A run whose kept calls answer ``model_path = "replay/NAME"``; ``model_path`` is its own."""

    name: str
    run_id: str
    run_name: str
    model_path: str


class EvaluationSpec(BaseModel):
    """One run, resolved: everything a worker needs to execute it. Holds secret values.

    With ``regrade`` the samples that ``done`` does not list are graded again, as they are stored.
    """

    run_id: str
    name: str
    workspace_id: str
    generation: int
    commit_sha: str
    rollout: str
    entrypoint: str
    model_path: str
    n: int
    batch_size: int
    pass_threshold: float
    agent_workflow_timeout_s: float
    grader_timeout_s: float
    selected_rows: int
    total_rows: int
    dataset_name: str
    advanced: dict[str, Any] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict)
    endpoints: list[ModelEndpoint] = Field(default_factory=list)
    replays: list[ReplayedRun] = Field(default_factory=list)
    resume: bool = False
    regrade: bool = False
    spent: Spending = Field(default_factory=Spending)
    """By earlier generations and workers; counts towards the budgets."""


class Claim(BaseModel):
    """``now`` is the platform's clock, unix time: the timestamps of the run follow it."""

    lease_token: str
    lease_s: float
    spec: EvaluationSpec
    now: float | None = None


class RowItem(BaseModel):
    """One selected row, normalised as rollout-protocol.md §7 says. ``label`` is text or None."""

    row_index: int
    source_row: int
    initial_messages: list[dict[str, Any]]
    label: str | None = None
    metadata: dict[str, Any] | None = None


class HeartbeatRequest(BaseModel):
    stage: Stage | None = None
    in_flight: int | None = None
    waiting_for: str | None = None
    effective: dict[str, Any] | None = None
    loop_lag_ms: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """How late the shard's event loop was, at worst, in the last second."""


class Heartbeat(BaseModel):
    stop: bool = False
    lease_s: float


class RecordsAck(BaseModel):
    """``spent``: by all shards of the run so far, in every generation."""

    accepted: int
    duplicates: int
    stop: bool = False
    spent: Spending | None = None


LogLevel = Literal["debug", "info", "warning", "error"]


class LogEntry(BaseModel):
    """One line of a run's log. ``timestamp`` is ISO 8601 with a zone."""

    timestamp: str
    level: LogLevel = "info"
    step: str
    message: str
    details: dict[str, Any] | None = None


class LogBatch(BaseModel):
    entries: list[LogEntry]
    id: str | None = Field(default=None, max_length=64)
    """Drawn for each batch: one that is sent again, for its answer was lost, is stored once."""


class RunError(BaseModel):
    """Why a run ended early: a kind of ``errors.RUN_ERROR_KINDS``, the sentence, the remedy."""

    kind: str
    message: str
    hint: str | None = None


class FinishRequest(BaseModel):
    status: Literal["finished", "failed", "stopped"]
    stop_reason: str | None = None
    stop_message: str | None = None
    error: RunError | None = None
    effective: dict[str, Any] = Field(default_factory=dict)


class LostCalls(BaseModel):
    """Requests to a provider that a shard sent and no record shows: it was killed, or their try
    was lost. ``shard_id`` names the process, so that the same report twice counts once."""

    shard_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    calls: int = Field(ge=0, le=2**40)
    spent: Spending = Field(default_factory=Spending)
    """What those of them used that had ended."""
