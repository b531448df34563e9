"""Evaluation runs, their samples and their logs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from osmosis.platform.db.base import Base, Identified, Timestamped, UtcDateTime, utc_now


class Run(Identified, Timestamped, Base):
    """One evaluation run. ``status``: pending, running, finished, failed, stopped.

    The lease columns are the only way to own a run: a claim sets token, holder and expiry; every
    later write names the token, and changes nothing once the token is another's. ``selection`` is
    ``{"kind": "first"|"sample", "seed": int|None, "rows": "0-9,12"}``. ``provided_cipher`` holds
    values given for this run only, encrypted, erased when the run ends. The ``*_count`` and sum
    columns are kept as records arrive, in the transaction of the batch; ``kept_count`` counts the
    samples whose calls were kept for a replay. ``claims`` counts claims
    since the last new sample. ``in_flight`` and ``waiting_for`` come with heartbeats. ``summary``
    is the final metrics, written when the run ends. A retry sets ``reopened_at`` and
    ``resumed_count``, the number of graded samples that the new ``generation`` keeps.
    ``regrade`` is set while the present generation grades stored samples again: the commit whose
    grader does it, how many samples, and the status to come back to. ``lost_calls`` is the sum of
    :class:`ShardLoss`. ``spent_tokens`` and ``spent_usd`` are what model calls used, of every
    generation and of lost tries too: they only ever grow.
    """

    __tablename__ = "runs"
    __table_args__ = (
        UniqueConstraint("workspace_id", "name"),
        Index("ix_runs_listing", "workspace_id", "created_at"),
        Index("ix_runs_claim", "status", "lease_expires_at"),
    )

    workspace_id: Mapped[str] = mapped_column(ForeignKey("workspaces.id", ondelete="CASCADE"))
    name: Mapped[str]
    status: Mapped[str] = mapped_column(default="pending")
    stage: Mapped[str] = mapped_column(default="queued")
    stop_reason: Mapped[str | None]
    stop_message: Mapped[str | None]
    stop_requested_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    error: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    generation: Mapped[int] = mapped_column(default=1)
    claims: Mapped[int] = mapped_column(default=0)
    in_flight: Mapped[int | None]
    waiting_for: Mapped[str | None]
    summary: Mapped[dict[str, Any] | None] = mapped_column(JSON)

    rollout: Mapped[str]
    entrypoint: Mapped[str]
    model_path: Mapped[str]
    branch: Mapped[str | None]
    commit_sha: Mapped[str]
    repository_id: Mapped[str | None] = mapped_column(
        ForeignKey("repositories.id", ondelete="SET NULL")
    )
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id"))
    dataset_name: Mapped[str]
    dataset_sha256: Mapped[str]
    config: Mapped[dict[str, Any]] = mapped_column(JSON)
    env: Mapped[dict[str, str]] = mapped_column(JSON)
    secret_scopes: Mapped[dict[str, str]] = mapped_column(JSON)
    provided_cipher: Mapped[bytes | None]
    effective: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    selection: Mapped[dict[str, Any]] = mapped_column(JSON)
    selected_rows: Mapped[int]
    total_rows: Mapped[int]
    n: Mapped[int]
    pass_threshold: Mapped[float]

    creator_id: Mapped[str | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    completed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    reopened_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    resumed_count: Mapped[int | None]
    regrade: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))

    lease_token: Mapped[str | None]
    lease_owner: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    sample_count: Mapped[int] = mapped_column(default=0)
    success_count: Mapped[int] = mapped_column(default=0)
    failed_count: Mapped[int] = mapped_column(default=0)
    skipped_count: Mapped[int] = mapped_column(default=0)
    graded_count: Mapped[int] = mapped_column(default=0)
    passed_count: Mapped[int] = mapped_column(default=0)
    reward_sum: Mapped[float] = mapped_column(default=0.0)
    tokens_sum: Mapped[int] = mapped_column(BigInteger, default=0)
    cost_sum: Mapped[float] = mapped_column(default=0.0)
    cost_unknown_count: Mapped[int] = mapped_column(default=0)
    judge_tokens_sum: Mapped[int] = mapped_column(BigInteger, default=0)
    lost_calls: Mapped[int] = mapped_column(BigInteger, default=0)
    spent_tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    spent_usd: Mapped[float] = mapped_column(default=0.0)
    saved_calls_count: Mapped[int] = mapped_column(BigInteger, default=0)
    saved_sum: Mapped[float] = mapped_column(default=0.0)
    saved_unknown_count: Mapped[int] = mapped_column(default=0)
    kept_count: Mapped[int] = mapped_column(default=0)


class RunTally(Base):
    """A run's samples as counted so far (`osmosis.platform.evals.run_count.RunCount`), as JSON.

    Written in the transaction of each batch of records. There is none while nothing is recorded,
    while samples are replaced by new grades, and for runs of an earlier ``version``: then it is
    counted anew.
    """

    __tablename__ = "run_tallies"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int]
    state: Mapped[bytes]


def _partial(name: str, condition: str, *columns: str) -> Index:
    """An index of the samples of a run that fulfil ``condition``, by these columns and by row."""
    only = text(condition)
    return Index(
        name,
        "run_id",
        *columns,
        "row_index",
        "run_index",
        sqlite_where=only,
        postgresql_where=only,
    )


class Sample(Base):
    """The winning try of one (run, row_index, run_index); the unique index counts it once.

    ``passed``: the reward reached the run's threshold; None for a skipped sample, which has no
    part in it. ``segment``, ``offset`` and ``length`` place its trajectory in the run's segment
    files. ``record`` holds the rest of the wire record (calls, metrics, error message, times), and
    ``latencies_ms`` of the policy's calls that were answered.
    """

    __tablename__ = "samples"
    __table_args__ = (
        UniqueConstraint("run_id", "row_index", "run_index"),
        Index("ix_samples_by_status", "run_id", "status", "passed", "row_index", "run_index"),
        Index("ix_samples_by_reward", "run_id", "reward", "row_index", "run_index"),
        _partial("ix_samples_graded", "reward IS NOT NULL", "status", "reward"),
        _partial("ix_samples_by_error", "error_type IS NOT NULL", "error_type", "status", "passed"),
        _partial(
            "ix_samples_graded_by_error",
            "error_type IS NOT NULL AND reward IS NOT NULL",
            "error_type",
            "status",
            "reward",
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    row_index: Mapped[int]
    run_index: Mapped[int]
    source_row: Mapped[int]
    rollout_id: Mapped[str]
    status: Mapped[str]
    reward: Mapped[float | None]
    passed: Mapped[bool | None]
    error_type: Mapped[str | None]
    tokens: Mapped[int | None]
    cost_usd: Mapped[float | None]
    duration_ms: Mapped[float]
    segment: Mapped[int | None]
    offset: Mapped[int | None] = mapped_column(BigInteger)
    length: Mapped[int | None]
    record: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)


class ShardLoss(Base):
    """How many requests to a provider one shard process sent that stand in no record."""

    __tablename__ = "shard_losses"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    shard_id: Mapped[str] = mapped_column(primary_key=True)
    calls: Mapped[int] = mapped_column(BigInteger)


class RunLog(Base):
    __tablename__ = "run_logs"
    __table_args__ = (Index("ix_run_logs_run", "run_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    timestamp: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    level: Mapped[str]
    step: Mapped[str]
    message: Mapped[str]
    details: Mapped[dict[str, Any] | None] = mapped_column(JSON)
