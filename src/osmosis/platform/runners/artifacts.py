"""Files that rollouts leave behind, streamed to disk whole or not at all."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from osmosis.wire.errors import OsmosisError, ValidationFailed

FILE_BYTES = 512 * 1024 * 1024
FREE_DISK_BYTES = 1024 * 1024 * 1024
PATH_CHARS = 1024
NAME_BYTES = 255
RESERVED = "manifest.json"
TEMPORARY_PREFIX = ".incoming-"


class ArtifactTooLarge(OsmosisError):
    code, http_status = "ARTIFACT_TOO_LARGE", 413


def safe_path(root: Path, rollout_id: str, path: str) -> Path:
    """Where an artifact goes; refuses whatever could lead out of its sample's directory."""
    if len(rollout_id) != 32 or not all(c in "0123456789abcdef" for c in rollout_id):
        raise ValidationFailed("A rollout id is 32 hexadecimal digits.", field="rollout_id")
    parts = path.split("/")
    bad = (
        not path
        or len(path) > PATH_CHARS
        or "\\" in path
        or any(ord(character) < 32 or ord(character) == 127 for character in path)
        or any(part in ("", ".", "..") for part in parts)
        or any(len(part.encode()) > NAME_BYTES for part in parts)
        or any(part.startswith(TEMPORARY_PREFIX) for part in parts)
    )
    if bad:
        raise ValidationFailed(
            "An artifact's path is relative, with / between its parts and no '.' or '..'.",
            field="path",
        )
    if path == RESERVED:
        raise ValidationFailed(
            f"The name {RESERVED} at the top of the artifacts is reserved.", field="path"
        )
    return root / rollout_id / PurePosixPath(path)


async def store_artifact(
    root: Path, rollout_id: str, path: str, chunks: AsyncIterator[bytes]
) -> int:
    """Write an artifact's bytes and give it its name; returns its size."""
    target = safe_path(root, rollout_id, path)
    temporary = root / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    await asyncio.to_thread(_make_room, root)
    size = 0
    try:
        with temporary.open("xb") as file:
            async for chunk in chunks:
                size += len(chunk)
                if size > FILE_BYTES:
                    raise ArtifactTooLarge(
                        f"The artifact {path} is larger than {FILE_BYTES // 2**20} MiB."
                    )
                await asyncio.to_thread(file.write, chunk)
            await asyncio.to_thread(_sync, file)
        await asyncio.to_thread(_give_name, temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return size


def list_artifacts(root: Path, rollout_id: str) -> list[tuple[str, int]]:
    """(path, size) of a sample's artifacts, sorted; links and odd files are left out."""
    top = root / rollout_id
    found: list[tuple[str, int]] = []
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if not (Path(folder) / name).is_symlink()]
        for name in files:
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                found.append((path.relative_to(top).as_posix(), path.stat().st_size))
    return sorted(found)


def _make_room(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(root).free < FREE_DISK_BYTES:
        raise ArtifactTooLarge(
            "The disk of the server is nearly full; artifacts are refused to keep it working.",
            hint="Delete old runs, or give the data directory more room.",
        )


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _give_name(temporary: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.replace(target)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise ValidationFailed(
            f"The artifact {target.name} is a file and a directory at once.", field="path"
        ) from None
