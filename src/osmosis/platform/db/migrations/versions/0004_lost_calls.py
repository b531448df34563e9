"""Model calls that shards sent and never recorded"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("lost_calls", sa.BigInteger(), nullable=False, server_default="0")
        )
    op.create_table(
        "shard_losses",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("shard_id", sa.String(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.id"],
            name=op.f("fk_shard_losses_run_id_runs"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("run_id", "shard_id", name=op.f("pk_shard_losses")),
    )


def downgrade() -> None:
    op.drop_table("shard_losses")
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_column("lost_calls")
