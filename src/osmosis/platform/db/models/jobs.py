"""Work that is not a run, under the same kind of lease."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Index
from sqlalchemy.orm import Mapped, mapped_column

from osmosis.platform.db.base import Base, Identified, Timestamped, UtcDateTime


class Job(Identified, Timestamped, Base):
    """``status``: pending, running, done, failed. ``subject_id`` is what the job is about."""

    __tablename__ = "jobs"
    __table_args__ = (Index("ix_jobs_claim", "status", "lease_expires_at"),)

    kind: Mapped[str]
    subject_id: Mapped[str]
    payload: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    status: Mapped[str] = mapped_column(default="pending")
    tries: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None]
    lease_token: Mapped[str | None]
    lease_owner: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
