"""Unpacks the tar of a commit without letting it out of its directory.

The repository is hostile until shown otherwise. Plain files and directories are written first,
into a tree that holds no link, so no write can be led astray. Links come last, and only those
that lead to something inside the tree stay. Devices, pipes and hard links are left out.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from pathlib import Path, PurePosixPath

from osmosis.wire.errors import RunFailed

MAX_CODE_BYTES = 4 * 1024**3
MAX_ENTRIES = 500_000
MAX_DEPTH = 64
EXECUTABLE, PLAIN = 0o755, 0o644


def unpack(archive: Path, target: Path) -> list[str]:
    """Unpack ``archive`` into the new directory ``target``; returns what was left out."""
    target.mkdir(parents=True)
    links: list[tuple[PurePosixPath, str]] = []
    left_out: list[str] = []
    try:
        with tarfile.open(archive, "r:") as tar:
            _write_files(tar, target, links, left_out)
    except (tarfile.TarError, OSError, UnicodeError) as error:
        raise _unavailable(f"the archive of the commit cannot be unpacked: {error}") from error
    _make_links(target, links, left_out)
    return left_out


def _write_files(
    tar: tarfile.TarFile,
    target: Path,
    links: list[tuple[PurePosixPath, str]],
    left_out: list[str],
) -> None:
    total = 0
    for count, member in enumerate(tar):
        total += member.size
        if count >= MAX_ENTRIES or total > MAX_CODE_BYTES:
            raise _unavailable(
                f"the commit is larger than {MAX_ENTRIES} files or {MAX_CODE_BYTES} bytes"
            )
        path = _inside(member.name)
        if path is None:
            left_out.append(f"{member.name}: leads out of the repository")
        elif member.isdir():
            (target / path).mkdir(parents=True, exist_ok=True)
        elif member.isreg():
            _write_file(tar, member, target / path)
        elif member.issym():
            links.append((path, member.linkname))
        else:
            left_out.append(f"{member.name}: neither a file nor a directory nor a link")


def _write_file(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = tar.extractfile(member)
    if source is None:
        return
    mode = EXECUTABLE if member.mode & stat.S_IXUSR else PLAIN
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    with source, os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)


def _make_links(target: Path, links: list[tuple[PurePosixPath, str]], left_out: list[str]) -> None:
    root = target.resolve()
    made: list[Path] = []
    for path, goal in links:
        place = target / path
        try:
            # A link made before could stand for a parent here and lead elsewhere.
            if not _is_inside(place.parent, root):
                raise OSError("its directory leads out of the repository")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(goal)
        except (OSError, ValueError) as error:
            left_out.append(f"{path}: {error}")
        else:
            made.append(place)
    # Links lead through each other, so the check is repeated until none had to go.
    while removed := [place for place in made if not _is_inside(place, root)]:
        for place in removed:
            place.unlink(missing_ok=True)
            made.remove(place)
            left_out.append(f"{place.relative_to(target)}: a link to nothing inside the repository")


def _is_inside(path: Path, root: Path) -> bool:
    """Whether ``path`` really ends inside ``root``. What cannot be followed does not."""
    try:
        return path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):
        return False


def _inside(name: str) -> PurePosixPath | None:
    path = PurePosixPath(name)
    bad = path.is_absolute() or ".." in path.parts or "\0" in name or len(path.parts) > MAX_DEPTH
    return None if bad else path


def _unavailable(what: str) -> RunFailed:
    return RunFailed(
        "code_unavailable",
        f"The code of the run is not usable: {what}.",
        hint="Check the repository at this commit, push again and submit again.",
    )
