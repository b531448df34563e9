"""What a commit holds: kinds of paths, trees, files, and the whole tree as a tar stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Literal, NamedTuple

from osmosis.platform.db.models import Repository
from osmosis.platform.gitsync.bare import repo_path
from osmosis.platform.gitsync.git import ERROR_BYTES, READ_BYTES, GitFailed, git, git_process, pipes
from osmosis.platform.settings import Settings
from osmosis.wire.errors import OsmosisError

MAX_FILE_BYTES = 1024 * 1024
SYMLINK_MODE = "120000"

Kind = Literal["tree", "blob", "commit"]


class TreeEntry(NamedTuple):
    """One entry of a directory; ``kind`` is ``commit`` for a submodule."""

    name: str
    kind: Kind
    mode: str
    object_id: str


class ObjectInfo(NamedTuple):
    object_id: str
    kind: str
    size: int


async def path_kind_at(
    settings: Settings, repository: Repository, commit_sha: str, path: str
) -> Kind | None:
    """``tree`` for a directory, ``blob`` for a file, None when the commit has no such path."""
    info = await _path_info(settings, repository, commit_sha, path)
    return info.kind if info and info.kind in ("tree", "blob", "commit") else None  # type: ignore[return-value]


async def list_tree(
    settings: Settings, repository: Repository, commit_sha: str, path: str = ""
) -> list[TreeEntry]:
    """The entries of a directory of the commit; empty when it is not there."""
    try:
        output = await git(
            settings,
            repo_path(settings, repository),
            "ls-tree",
            "-z",
            f"{commit_sha}:{path.strip('/')}",
        )
    except GitFailed:
        return []
    return parse_tree(output)


def parse_tree(output: bytes) -> list[TreeEntry]:
    """The entries of ``ls-tree -z``; a name that is not UTF-8 is left out."""
    entries: list[TreeEntry] = []
    for record in output.split(b"\0"):
        head, tab, raw_name = record.partition(b"\t")
        if not tab:
            continue
        mode, kind, object_id = head.decode().split(" ")[:3]
        try:
            entries.append(TreeEntry(raw_name.decode(), kind, mode, object_id))  # type: ignore[arg-type]
        except UnicodeDecodeError:
            continue
    return entries


async def read_file_at(
    settings: Settings,
    repository: Repository,
    commit_sha: str,
    path: str,
    *,
    max_bytes: int = MAX_FILE_BYTES,
) -> bytes | None:
    """A file's bytes at the commit, or None; a file over ``max_bytes`` is refused."""
    info = await _path_info(settings, repository, commit_sha, path)
    if info is None or info.kind != "blob":
        return None
    if info.size > max_bytes:
        raise OsmosisError(f"The file '{path}' is larger than {max_bytes:,} bytes.")
    return (await read_blobs(settings, repository, [info.object_id]))[info.object_id]


async def _path_info(
    settings: Settings, repository: Repository, commit_sha: str, path: str
) -> ObjectInfo | None:
    inside = path.strip("/")
    # git takes '..' for a way out of the tree, and a line for a question.
    if {".", ".."} & set(inside.split("/")) or "\n" in path or "\0" in path:
        return None
    (info,) = await object_infos(settings, repository, [f"{commit_sha}:{inside}"])
    return info


async def object_infos(
    settings: Settings, repository: Repository, names: Sequence[str]
) -> list[ObjectInfo | None]:
    """Id, kind and size of each named object (one line each), or None where there is none."""
    if not names:
        return []
    output = await git(
        settings,
        repo_path(settings, repository),
        "cat-file",
        "--batch-check=%(objectname) %(objecttype) %(objectsize)",
        stdin="".join(f"{name}\n" for name in names).encode(),
    )
    infos: list[ObjectInfo | None] = []
    for line in output.decode(errors="replace").splitlines():
        # What is missing or ambiguous answers with other words, the last of them no number.
        words = line.rsplit(" ", 2)
        found = len(words) == 3 and words[2].isdecimal() and " " not in words[0]
        infos.append(ObjectInfo(words[0], words[1], int(words[2])) if found else None)
    return infos


async def read_blobs(
    settings: Settings, repository: Repository, object_ids: Sequence[str]
) -> dict[str, bytes]:
    """The contents of blobs whose (small) sizes the caller has checked."""
    if not object_ids:
        return {}
    output = await git(
        settings,
        repo_path(settings, repository),
        "cat-file",
        "--batch",
        stdin="".join(f"{object_id}\n" for object_id in object_ids).encode(),
    )
    contents: dict[str, bytes] = {}
    start = 0
    while (end := output.find(b"\n", start)) >= 0:
        object_id, _, size = output[start:end].decode().split(" ")
        after = end + 1 + int(size)
        contents[object_id] = output[end + 1 : after]
        start = after + 1
    return contents


async def archive(
    settings: Settings, repository: Repository, commit_sha: str
) -> AsyncIterator[bytes]:
    """The commit's whole tree as an uncompressed tar stream.

    A failure after the first bytes raises, so that a cut archive is never taken for a whole one.
    """
    path = repo_path(settings, repository)
    async with git_process(settings, path, "archive", "--format=tar", commit_sha) as process:
        stdin, stdout, stderr = pipes(process)
        stdin.close()
        complaint = asyncio.create_task(stderr.read(ERROR_BYTES))
        try:
            while chunk := await stdout.read(READ_BYTES):
                yield chunk
            said = (await complaint).decode(errors="replace").strip()
        finally:
            complaint.cancel()
            await asyncio.gather(complaint, return_exceptions=True)
        if await process.wait() != 0:
            raise OsmosisError(
                f"The code of commit {commit_sha[:12]} cannot be read from the repository.",
                hint="Was the commit removed from the server's copy?",
                platform_code="COMMIT_UNREADABLE",
                details={"git": said[:500]},
            )
