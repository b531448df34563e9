"""Whose pages a signed-in person may see: those of the workspaces they belong to."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.models import Workspace
from osmosis.platform.workspaces import service as workspaces
from osmosis.wire.errors import Forbidden, NotFound


async def member_workspace(session: AsyncSession, user_id: str, name: str) -> Workspace:
    """The workspace of this name; one that is another's is as if it were not there."""
    try:
        found = await workspaces.by_name(session, user_id, name)
    except Forbidden:
        raise NotFound(f"There is no workspace '{name}', or you do not belong to it.") from None
    return found.workspace
