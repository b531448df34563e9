"""How Alembic reaches the database. Run through ``osmosis.platform.db.schema`` alone."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine, pool

from osmosis.platform.db.models import User


def run() -> None:
    engine = create_engine(context.config.attributes["url"], poolclass=pool.NullPool)
    with engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=User.metadata,
            render_as_batch=True,
            compare_type=True,
            user_module_prefix="base.",
        )
        with context.begin_transaction():
            context.run_migrations()
    engine.dispose()


run()
