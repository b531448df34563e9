"""Runs that were reopened: when, and how many samples they kept"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from osmosis.platform.db import base

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("reopened_at", base.UtcDateTime(timezone=True), nullable=True)
        )
        batch_op.add_column(sa.Column("resumed_count", sa.Integer(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_column("resumed_count")
        batch_op.drop_column("reopened_at")
