"""What an operator does on the data directory itself, beside a running server or without one."""

from __future__ import annotations

import asyncio

from osmosis.platform.accounts.service import set_admin
from osmosis.platform.db.schema import upgrade
from osmosis.platform.db.session import Database
from osmosis.platform.settings import Settings


def create_admin(settings: Settings, password: str, *, email: str | None = None) -> str:
    """Give the first account, or that of ``email``, a password and admin rights."""
    settings.create_directories()
    upgrade(settings.sqlalchemy_url)
    return asyncio.run(_create_admin(settings, password, email))


async def _create_admin(settings: Settings, password: str, email: str | None) -> str:
    db = Database(settings.sqlalchemy_url)
    try:
        async with db.write() as session:
            return (await set_admin(session, password, email)).email
    finally:
        await db.close()
