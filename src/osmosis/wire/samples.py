"""The record of a sample: what a shard emits once per (row, run) and the platform stores."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SampleStatus = Literal["success", "failed", "skipped"]
Route = Literal["policy", "judge"]


class CallRetry(BaseModel):
    """A failed attempt of a model call that was repeated ``waited_s`` seconds later.

    ``http_status`` None: there was no HTTP answer.
    """

    model_config = ConfigDict(extra="forbid")

    kind: str
    http_status: int | None = None
    waited_s: float = 0.0


class ModelCall(BaseModel):
    """One model call made through the gateway during a sample, in dispatch order.

    Times are seconds; ``started_at`` is unix time. ``cost_usd`` None means unknown, never zero.
    ``queue_s`` is the wait for our own limiter, repeats included, and is not part of
    ``latency_s``. ``retries`` has one entry for each failed attempt that was repeated, at most
    ``[advanced] max_retries``. ``ended_in_queue``: it was waiting when it was called off.
    ``cached`` and ``replayed`` calls were answered from an earlier call: they keep its latency and
    tokens, cost 0, and ``saved_usd`` is what it cost (None: unknown).
    """

    model_config = ConfigDict(extra="forbid")

    route: Route = "policy"
    model: str
    started_at: float
    latency_s: float
    queue_s: float = 0.0
    http_status: int
    streamed: bool = False
    scripted: bool = False
    cached: bool = False
    replayed: bool = False
    upstream_requests: int = 1
    retries: list[CallRetry] | None = None
    ended_in_queue: bool | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    saved_usd: float | None = None
    finish_reason: str | None = None
    error_kind: str | None = None
    error_message: str | None = None


class SampleRecord(BaseModel):
    """The terminal result of one sample: the winning try of (run, row_index, run_index).

    ``rollout_id`` is the try's own id (32 lower hex). ``reward`` is finite and only present when
    the grader succeeded. ``error_kind`` is the kind of the model call that failed the sample, where
    one did (:mod:`osmosis.wire.failure_policy`). ``tokens`` counts policy calls only.
    ``trajectory`` is an ATIF document (rollout-protocol.md §8.1) or None. ``output`` is what the
    sample printed, when it can be told apart. ``saved_calls`` counts the calls that were answered
    without a model; ``kept_calls`` holds requests and answers for a replay (base64 of gzip members
    of JSON lines). ``messages`` are those that the workflow returned, where the trajectory does not
    tell them as they were. ``interruptions`` counts tries that a fault of somebody else ended; they
    are not among ``tries``, and what they spent is not in ``tokens`` and ``cost_usd``. All text is
    redacted of secret values before it gets here.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    row_index: int = Field(ge=0)
    run_index: int = Field(ge=0)
    source_row: int = Field(ge=0)
    rollout_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    status: SampleStatus
    reward: float | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_kind: str | None = None
    tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    judge_tokens: int | None = None
    judge_cost_usd: float | None = None
    saved_calls: int = 0
    saved_usd: float | None = None
    duration_ms: float = Field(ge=0)
    queue_ms: float = 0.0
    started_at: float
    finished_at: float
    tries: int = Field(default=1, ge=1)
    interruptions: int = Field(default=0, ge=0)
    interrupted_tokens: int | None = None
    interrupted_cost_usd: float | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    calls: list[ModelCall] = Field(default_factory=list)
    kept_calls: str | None = None
    messages: list[dict[str, Any]] | None = None
    trajectory: dict[str, Any] | None = None
    output: str | None = None
    artifacts: list[str] = Field(default_factory=list)
