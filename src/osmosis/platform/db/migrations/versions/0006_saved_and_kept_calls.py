"""Calls that no model had to answer, what they saved, and the samples whose calls are kept"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

COLUMNS = {
    "saved_calls_count": sa.BigInteger(),
    "saved_sum": sa.Double(),
    "saved_unknown_count": sa.Integer(),
    "kept_count": sa.Integer(),
}


def upgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        for name, kind in COLUMNS.items():
            batch_op.add_column(sa.Column(name, kind, nullable=False, server_default="0"))


def downgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        for name in COLUMNS:
            batch_op.drop_column(name)
