"""What a run has spent over all generations, and why it was stopped"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("stop_message", sa.String(), nullable=True))
        batch_op.add_column(
            sa.Column("spent_tokens", sa.BigInteger(), nullable=False, server_default="0")
        )
        batch_op.add_column(sa.Column("spent_usd", sa.Double(), nullable=False, server_default="0"))
    op.execute("UPDATE runs SET spent_tokens = tokens_sum + judge_tokens_sum, spent_usd = cost_sum")


def downgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_column("spent_usd")
        batch_op.drop_column("spent_tokens")
        batch_op.drop_column("stop_message")
