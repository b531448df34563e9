from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from osmosis.platform.db.schema import (
    HEAD,
    current_sqlite_revision,
    migration_config,
    upgrade,
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'osmosis.db'}"


def test_the_migrations_make_exactly_the_models(url: str) -> None:
    upgrade(url)
    command.check(migration_config(url))


def test_the_known_head_is_the_newest_migration(url: str) -> None:
    assert ScriptDirectory.from_config(migration_config(url)).get_current_head() == HEAD


def test_upgrading_twice_changes_nothing(url: str) -> None:
    assert current_sqlite_revision(url) is None
    upgrade(url)
    assert current_sqlite_revision(url) == HEAD
    upgrade(url)


def test_the_migrations_go_back_to_nothing(url: str) -> None:
    upgrade(url)
    command.downgrade(migration_config(url), "base")
    assert current_sqlite_revision(url) is None
