"""Which samples passed, and indexes for every order and filter of a run's samples"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

INDEXES = (("ix_samples_by_passed", "passed"), ("ix_samples_by_reward", "reward"))


def upgrade() -> None:
    op.add_column("samples", sa.Column("passed", sa.Boolean(), nullable=True))
    op.execute(
        "UPDATE samples SET passed = coalesce(reward >= (SELECT pass_threshold FROM runs "
        "WHERE runs.id = samples.run_id), FALSE) WHERE status != 'skipped'"
    )
    for name, column in INDEXES:
        op.create_index(name, "samples", ["run_id", column, "row_index", "run_index"])
    op.create_index(
        "ix_samples_by_error",
        "samples",
        ["run_id", "error_type", "row_index", "run_index"],
        sqlite_where=sa.text("error_type IS NOT NULL"),
        postgresql_where=sa.text("error_type IS NOT NULL"),
    )


def downgrade() -> None:
    for name in ("ix_samples_by_error", *(name for name, _ in reversed(INDEXES))):
        op.drop_index(name, table_name="samples")
    with op.batch_alter_table("samples", schema=None) as batch_op:
        batch_op.drop_column("passed")
