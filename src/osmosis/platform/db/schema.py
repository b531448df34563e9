"""The schema: brought up to date at every start, by migrations alone."""

from __future__ import annotations

import io
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent / "migrations"
HEAD = "0009"
"""The newest migration; a database that is there already needs no migration tool loaded."""


def upgrade(url: str) -> None:
    """Bring the database at an async URL to :data:`HEAD`. Blocking: call it in a thread."""
    if current_sqlite_revision(url) == HEAD:
        return
    from alembic import command  # noqa: PLC0415  0.1 s that most starts do not need

    command.upgrade(migration_config(url), "head")


def migration_config(url: str) -> Config:
    from alembic.config import Config  # noqa: PLC0415  see upgrade()

    # Its default output is whatever stdout was when alembic was imported; nobody reads it here.
    config = Config(stdout=io.StringIO())
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = sync_url(url)
    return config


def sync_url(url: str) -> str:
    """The URL for a blocking driver: migrations run outside the event loop."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        parsed = parsed.set(drivername="sqlite")
    return parsed.render_as_string(hide_password=False)


def current_sqlite_revision(url: str) -> str | None:
    """The revision of an existing SQLite file; None when it has none or is no SQLite."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    if not Path(parsed.database).exists():
        return None
    connection = sqlite3.connect(parsed.database)
    try:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return row[0] if row else None
    except sqlite3.OperationalError:
        return None
    finally:
        connection.close()
