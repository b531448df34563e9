"""Listing what the catalogue knows of a branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.models import Branch, Repository, Rollout
from osmosis.platform.gitsync.service import repository_of
from osmosis.platform.paging import Page, fetch_page
from osmosis.wire.errors import NotFound, did_you_mean


@dataclass(frozen=True)
class BranchRollouts:
    """A page of a branch's rollouts; there is no branch before the first push."""

    repository: Repository
    branch: Branch | None
    rollouts: Sequence[Rollout]
    total: int


async def rollouts_of_branch(
    session: AsyncSession, workspace_id: str, name: str | None, page: Page
) -> BranchRollouts:
    """The rollouts of a branch, by default of the default branch, in order of their names."""
    repository = await repository_of(session, workspace_id)
    wanted = name or repository.default_branch
    query = select(Branch).where(Branch.repository_id == repository.id, Branch.name == wanted)
    branch = (await session.execute(query)).scalar_one_or_none()
    if branch is None:
        if name is not None:
            raise await _unknown_branch(session, repository, name)
        return BranchRollouts(repository, None, [], 0)
    listed = select(Rollout).where(Rollout.branch_id == branch.id).order_by(Rollout.name)
    rollouts, total = await fetch_page(session, listed, page)
    return BranchRollouts(repository, branch, rollouts, total)


async def _unknown_branch(session: AsyncSession, repository: Repository, name: str) -> NotFound:
    query = select(Branch.name).where(Branch.repository_id == repository.id)
    known = (await session.execute(query)).scalars().all()
    return NotFound(
        f"No branch '{name}' was pushed to '{repository.identity}'.{did_you_mean(name, known)}",
        hint="`git push origin HEAD` pushes the branch you are on.",
        platform_code="BRANCH_NOT_FOUND",
    )
