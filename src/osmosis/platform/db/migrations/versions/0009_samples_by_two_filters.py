"""Indexes for every pair of a filter with a filter, and with the order by reward"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

BROKEN, GRADED = "error_type IS NOT NULL", "reward IS NOT NULL"


def upgrade() -> None:
    for name in ("ix_samples_by_status", "ix_samples_by_passed", "ix_samples_by_error"):
        op.drop_index(name, table_name="samples")
    _create("ix_samples_by_status", "status", "passed")
    _create("ix_samples_graded", "status", "reward", only=GRADED)
    _create("ix_samples_by_error", "error_type", "status", "passed", only=BROKEN)
    broken_and_graded = f"{BROKEN} AND {GRADED}"
    _create("ix_samples_graded_by_error", "error_type", "status", "reward", only=broken_and_graded)


def downgrade() -> None:
    for name in ("graded_by_error", "by_error", "graded", "by_status"):
        op.drop_index(f"ix_samples_{name}", table_name="samples")
    _create("ix_samples_by_status", "status")
    _create("ix_samples_by_passed", "passed")
    _create("ix_samples_by_error", "error_type", only=BROKEN)


def _create(name: str, *columns: str, only: str | None = None) -> None:
    condition = sa.text(only) if only else None
    op.create_index(
        name,
        "samples",
        ["run_id", *columns, "row_index", "run_index"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
