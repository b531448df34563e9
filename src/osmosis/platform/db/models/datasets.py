"""Datasets: their bytes' place, their state, their preview and their processing log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from osmosis.platform.db.base import Base, Identified, Timestamped, UtcDateTime, utc_now


class Dataset(Identified, Timestamped, Base):
    """``status``: pending, uploading, processing, uploaded, error, cancelled.

    The bytes are ``<data>/datasets/<id>.<extension>`` and never change: an overwrite makes a new
    row and marks the old one replaced, so a run keeps the bytes that it was submitted with.
    """

    __tablename__ = "datasets"
    __table_args__ = (Index("ix_datasets_live_name", "workspace_id", "name"),)

    workspace_id: Mapped[str] = mapped_column(ForeignKey("workspaces.id", ondelete="CASCADE"))
    name: Mapped[str]
    extension: Mapped[str]
    status: Mapped[str] = mapped_column(default="uploading")
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str | None]
    row_count: Mapped[int | None]
    columns: Mapped[list[str] | None] = mapped_column(JSON)
    preview: Mapped[list[Any] | None] = mapped_column(JSON)
    upload: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    replaces_id: Mapped[str | None]
    deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    creator_id: Mapped[str | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))


class DatasetLog(Base):
    __tablename__ = "dataset_logs"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    dataset_id: Mapped[str] = mapped_column(
        ForeignKey("datasets.id", ondelete="CASCADE"), index=True
    )
    timestamp: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    level: Mapped[str]
    step: Mapped[str]
    message: Mapped[str]
    details: Mapped[dict[str, Any] | None] = mapped_column(JSON)
