"""The catalogue: each branch with its commit, and the rollouts that each branch holds."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Branch, Repository, Rollout
from osmosis.platform.gitsync.bare import repo_path, repository_lock
from osmosis.platform.gitsync.commits import Head, heads
from osmosis.platform.gitsync.git import git
from osmosis.platform.gitsync.reading import object_infos, parse_tree, read_blobs
from osmosis.platform.platform import Platform
from osmosis.platform.settings import Settings

ROLLOUTS = "rollouts"
MAX_BRANCHES = 1000
MAX_ROLLOUTS = 500
MAX_DESCRIBED_BYTES = 32 * 1024
DESCRIPTION_CHARACTERS = 300
MAX_TOML_BRACKETS = 500
"""More could be nested deeper than the parser's recursion; a description is not worth that."""

USUAL_DEFAULTS = ("main", "master")


@dataclass(frozen=True)
class FoundRollout:
    name: str
    description: str | None


@dataclass(frozen=True)
class Catalogued:
    """What a catalogue run saw."""

    branches: int
    rollouts: int


async def catalogue(
    platform: Platform, repository_id: str, *, default_branch: str | None = None
) -> Catalogued:
    """Bring the database up to what the bare copy holds now."""
    async with repository_lock(repository_id):
        return await catalogue_locked(platform, repository_id, default_branch=default_branch)


async def catalogue_locked(
    platform: Platform, repository_id: str, *, default_branch: str | None = None
) -> Catalogued:
    """The same for a caller that holds the repository's lock."""
    settings = platform.settings
    async with platform.db.read() as session:
        repository = await session.get_one(Repository, repository_id)
        known = {branch.name: branch.commit_sha for branch in await _branches(session, repository)}
    found = (await heads(settings, repository))[:MAX_BRANCHES]
    changed = [head for head in found if known.get(head.name) != head.commit_sha]
    rollouts = await rollouts_of(settings, repository, {head.commit_sha for head in changed})
    default = _default_branch(repository, found, default_branch)
    if default and (default_branch or default != repository.default_branch):
        await git(
            settings,
            repo_path(settings, repository),
            "symbolic-ref",
            "HEAD",
            f"refs/heads/{default}",
        )
    async with platform.db.write() as session:
        repository = await session.get_one(Repository, repository_id)
        repository.default_branch = default or repository.default_branch
        repository.last_synced_at = utc_now()
        repository.last_error = None
        await _store(session, repository, found, changed, rollouts)
    return Catalogued(len(found), sum(len(names) for names in rollouts.values()))


async def rollouts_of(
    settings: Settings, repository: Repository, commits: Iterable[str]
) -> dict[str, list[FoundRollout]]:
    """The rollouts at each commit: the directories under ``rollouts/``.

    Commits with the same ``rollouts/`` are read once, and every description comes from one pass.
    """
    wanted = list(commits)
    trees = await object_infos(settings, repository, [f"{sha}:{ROLLOUTS}" for sha in wanted])
    by_tree: dict[str, list[FoundRollout]] = {}
    for tree in {info.object_id for info in trees if info and info.kind == "tree"}:
        output = await git(settings, repo_path(settings, repository), "ls-tree", "-d", "-z", tree)
        names = [e.name for e in parse_tree(output) if e.kind == "tree" and "\n" not in e.name]
        shown = sorted(name for name in names if not name.startswith("."))[:MAX_ROLLOUTS]
        by_tree[tree] = await _described(settings, repository, tree, shown)
    return {
        sha: by_tree.get(info.object_id, []) if info else []
        for sha, info in zip(wanted, trees, strict=True)
    }


async def _described(
    settings: Settings, repository: Repository, tree: str, names: Sequence[str]
) -> list[FoundRollout]:
    sources = [
        f"{tree}:{name}/{file}" for name in names for file in ("README.md", "pyproject.toml")
    ]
    infos = await object_infos(settings, repository, sources)
    small = [
        info.object_id
        if info and info.kind == "blob" and info.size <= MAX_DESCRIBED_BYTES
        else None
        for info in infos
    ]
    contents = await read_blobs(settings, repository, sorted({i for i in small if i}))

    def describe() -> list[FoundRollout]:
        texts = [contents[i].decode(errors="replace") if i else "" for i in small]
        return [
            FoundRollout(
                name, first_paragraph(texts[2 * n]) or project_description(texts[2 * n + 1])
            )
            for n, name in enumerate(names)
        ]

    return await asyncio.to_thread(describe)


def first_paragraph(markdown: str) -> str | None:
    """The first plain paragraph of a README: no heading, badge, comment, list or table."""
    text = re.sub(r"<!--.*?(-->|\Z)", "", markdown, flags=re.DOTALL)
    text = re.sub(r"^(```|~~~).*?(^\1|\Z)", "", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        lines = [line.strip() for line in block.strip().splitlines()]
        while lines and (lines[0].startswith("#") or re.fullmatch(r"[=-]{2,}", lines[0])):
            lines.pop(0)
        if len(lines) > 1 and re.fullmatch(r"[=-]{2,}", lines[1]):
            lines = lines[2:]
        if lines and not lines[0].startswith(("[![", "![", "<", "|", ">", "- ", "* ", "---")):
            return _shortened(" ".join(lines))
    return None


def project_description(toml: str) -> str | None:
    """``[project] description`` of a pyproject."""
    if toml.count("[") + toml.count("{") > MAX_TOML_BRACKETS:
        return None
    try:
        said = tomllib.loads(toml).get("project", {}).get("description")
    except (tomllib.TOMLDecodeError, AttributeError):
        return None
    return _shortened(said) if isinstance(said, str) and said.strip() else None


def _shortened(text: str) -> str:
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(words) <= DESCRIPTION_CHARACTERS:
        return words
    return words[: DESCRIPTION_CHARACTERS - 1].rstrip() + "…"


def _default_branch(
    repository: Repository, found: Sequence[Head], announced: str | None
) -> str | None:
    names = [head.name for head in found]
    for candidate in (announced, repository.default_branch, *USUAL_DEFAULTS, *names[:1]):
        if candidate in names:
            return candidate
    return None


async def _branches(session: AsyncSession, repository: Repository) -> Sequence[Branch]:
    query = select(Branch).where(Branch.repository_id == repository.id)
    return (await session.execute(query)).scalars().all()


async def _store(
    session: AsyncSession,
    repository: Repository,
    found: Sequence[Head],
    changed: Sequence[Head],
    rollouts: dict[str, list[FoundRollout]],
) -> None:
    now = utc_now()
    rows = {branch.name: branch for branch in await _branches(session, repository)}
    names = {head.name for head in found}
    for name in rows.keys() - names:
        await session.delete(rows.pop(name))
    for head in found:
        if head.name not in rows:
            row = Branch(repository_id=repository.id, name=head.name, commit_sha=head.commit_sha)
            session.add(row)
            rows[head.name] = row
        rows[head.name].commit_sha = head.commit_sha
        rows[head.name].synced_at = now
    await session.flush()
    for head in changed:
        await _store_rollouts(session, repository, rows[head.name], rollouts[head.commit_sha])


async def _store_rollouts(
    session: AsyncSession, repository: Repository, branch: Branch, found: Sequence[FoundRollout]
) -> None:
    query = select(Rollout).where(Rollout.branch_id == branch.id)
    rows = {rollout.name: rollout for rollout in (await session.execute(query)).scalars()}
    for name in rows.keys() - {rollout.name for rollout in found}:
        await session.delete(rows[name])
    for rollout in found:
        row = rows.get(rollout.name)
        if row is None:
            row = Rollout(
                workspace_id=repository.workspace_id, branch_id=branch.id, name=rollout.name
            )
            session.add(row)
        row.description = rollout.description
        row.commit_sha = branch.commit_sha
