"""Reads what user code left in a rollout's directory, without trusting a single entry of it.

User code owns the directory and may put links, pipes, devices or endless trees there, and may
go on changing it while we look. So every step is relative to an open directory, follows no
link, opens without blocking, and takes regular files of bounded size only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TRAJECTORY_NAME = "trajectory.json"
ARTIFACTS_NAME = "artifacts"
RESERVED_TOP_NAMES = frozenset({"manifest.json"})
MAX_TRAJECTORY_BYTES = 64 * 1024 * 1024
MAX_ARTIFACT_BYTES = 64 * 1024 * 1024
MAX_ARTIFACTS_BYTES = 256 * 1024 * 1024
MAX_ARTIFACTS = 1000
MAX_PATH_CHARS = 1024
MAX_DEPTH = 16
MAX_ENTRIES_SEEN = 20_000

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class Artifact:
    """One artifact's relative path (``/`` between parts) and bytes."""

    path: str
    content: bytes


@dataclass(slots=True)
class Leftover:
    """What was left out of the artifacts, and why; for a warning."""

    reasons: list[str] = field(default_factory=list)


def read_trajectory(rollout_dir: Path) -> bytes | None:
    """The bytes of ``trajectory.json``; None when there is no usable one."""
    try:
        directory = os.open(rollout_dir, _DIRECTORY)
    except OSError:
        return None
    try:
        return _read_file(directory, TRAJECTORY_NAME, MAX_TRAJECTORY_BYTES)
    except OSError:
        return None
    finally:
        os.close(directory)


def has_artifacts(rollout_dir: Path) -> bool:
    """True when the artifacts directory has any entry. Cheap: one look."""
    try:
        with os.scandir(f"{rollout_dir}/{ARTIFACTS_NAME}") as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def iter_artifacts(rollout_dir: Path, leftover: Leftover) -> Iterator[Artifact]:
    """The regular files under ``artifacts/``, in order of name, within all bounds."""
    try:
        root = os.open(rollout_dir, _DIRECTORY)
    except OSError:
        return
    try:
        top = os.open(ARTIFACTS_NAME, _DIRECTORY, dir_fd=root)
    except OSError:
        return
    finally:
        os.close(root)
    count = total = 0
    try:
        for directory, name, path in _walk(top, leftover):
            if path in RESERVED_TOP_NAMES:
                leftover.reasons.append(f"{path}: the name is reserved")
                continue
            if count >= MAX_ARTIFACTS:
                leftover.reasons.append(f"more than {MAX_ARTIFACTS} files")
                return
            try:
                content = _read_file(directory, name, MAX_ARTIFACT_BYTES)
            except OSError as error:
                leftover.reasons.append(f"{path}: {error.strerror}")
                continue
            if content is None:
                leftover.reasons.append(
                    f"{path}: not a regular file of at most {MAX_ARTIFACT_BYTES} bytes"
                )
                continue
            if total + len(content) > MAX_ARTIFACTS_BYTES:
                leftover.reasons.append(f"more than {MAX_ARTIFACTS_BYTES} bytes in all")
                return
            count += 1
            total += len(content)
            yield Artifact(path, content)
    finally:
        with contextlib.suppress(OSError):
            os.close(top)


def remove_rollout_dir(rollout_dir: Path) -> None:
    """Delete the directory; links in it are removed, never followed."""
    shutil.rmtree(rollout_dir, ignore_errors=True)


def _walk(top: int, leftover: Leftover) -> Iterator[tuple[int, str, str]]:
    """(directory fd, name, relative path) of the non-directories below ``top``."""
    seen = 0

    def visit(directory: int, prefix: str, depth: int) -> Iterator[tuple[int, str, str]]:
        nonlocal seen
        with os.scandir(directory) as entries:
            names = sorted(
                (entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink())
                for entry in _first(entries, MAX_ENTRIES_SEEN - seen)
            )
        seen += len(names)
        for name, is_directory, is_link in names:
            path = prefix + name
            if is_link or len(path) > MAX_PATH_CHARS or not path.isprintable():
                leftover.reasons.append(f"{path[:200]!r}: a link or an odd name")
            elif not is_directory:
                yield directory, name, path
            elif depth >= MAX_DEPTH:
                leftover.reasons.append(f"{path}: deeper than {MAX_DEPTH} directories")
            else:
                try:
                    child = os.open(name, _DIRECTORY, dir_fd=directory)
                except OSError:
                    continue
                try:
                    yield from visit(child, path + "/", depth + 1)
                finally:
                    os.close(child)

    yield from visit(top, "", 1)


def _first(entries: Iterator[os.DirEntry[str]], most: int) -> Iterator[os.DirEntry[str]]:
    for _ in range(most):
        entry = next(entries, None)
        if entry is None:
            return
        yield entry


def _read_file(directory: int, name: str, most_bytes: int) -> bytes | None:
    """The content of a regular file of at most ``most_bytes``, else None."""
    descriptor = os.open(name, _FILE, dir_fd=directory)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most_bytes:
            return None
        chunks: list[bytes] = []
        left = most_bytes + 1
        while left > 0 and (chunk := os.read(descriptor, min(left, 1 << 20))):
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks) if left > 0 else None
    finally:
        os.close(descriptor)
