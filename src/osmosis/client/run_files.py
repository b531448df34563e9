"""The files of a run that can be downloaded: their kinds, names and places (platform-api.md §3.6).

What a manifest names is checked here, before anything is written: a platform must not choose a
place outside the directory that the user gave.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

from osmosis.wire.errors import OsmosisError, ValidationFailed, did_you_mean

KINDS = ("metrics", "trajectories", "artifacts", "logs")
DEFAULT_KINDS = ("metrics", "trajectories")
EVERYTHING = "all"
MAX_NAME = 255

_TOP_LEVEL = {"metrics.json": "metrics", "summary.jsonl": "trajectories", "logs.txt": "logs"}
_ROWS = re.compile(r"\d{1,18}(?:-\d{1,18})?(?:,\d{1,18}(?:-\d{1,18})?)*")
_ARTIFACT_INDEX = re.compile(r"artifacts/row_\d+_run_\d+/manifest\.json")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
_DEVICE_NAME = re.compile(r"con|prn|aux|nul|(com|lpt)[1-9]")


@dataclass(frozen=True)
class RunFile:
    """One file of a run. ``token`` names the version that the manifest promised."""

    path: str
    size: int
    kind: str
    token: str | None = None

    def body(self) -> dict[str, Any]:
        """The file in a request for its address."""
        return {"path": self.path, **({"token": self.token} if self.token is not None else {})}


@dataclass(frozen=True)
class FileProblem:
    """A file that did not arrive, and why."""

    path: str
    error: str

    def body(self) -> dict[str, str]:
        return {"path": self.path, "error": self.error}


@dataclass
class Manifest:
    """What can be fetched, what the platform named that must not be, and its own totals."""

    files: list[RunFile] = field(default_factory=list)
    refused: list[FileProblem] = field(default_factory=list)
    totals: dict[str, Any] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in self.files)

    def breakdown(self) -> dict[str, dict[str, int]]:
        """Files and bytes by kind."""
        result: dict[str, dict[str, int]] = {}
        for file in self.files:
            bucket = result.setdefault(file.kind, {"files": 0, "bytes": 0})
            bucket["files"] += 1
            bucket["bytes"] += file.size
        return result


def parse_kinds(text: str) -> tuple[str, ...]:
    """The kinds that ``metrics,trajectories`` or ``all`` names, in their fixed order."""
    named = [part.strip() for part in text.split(",")]
    if EVERYTHING in named:
        if len(named) > 1:
            raise ValidationFailed("The type 'all' stands alone: it already means every type.")
        return KINDS
    for name in named:
        if name not in KINDS:
            raise ValidationFailed(
                f"There is no download type '{name}'.{did_you_mean(name, KINDS)}",
                hint=f"The types are {', '.join(KINDS)}, or all; separate them by commas.",
            )
    return tuple(kind for kind in KINDS if kind in named)


def parse_rows(text: str) -> str:
    """``3,7,10-20`` without spaces, checked as syntax; the platform knows which rows exist."""
    rows = "".join(text.split())
    if not _ROWS.fullmatch(rows):
        raise ValidationFailed(
            f"'{text[:80]}' names no rows.", hint="Write rows from 0 like 3,7,10-20."
        )
    for part in rows.split(","):
        first, _, last = part.partition("-")
        if last and int(last) < int(first):
            raise ValidationFailed(
                f"The range {part} runs backwards.", hint=f"Write {last}-{first}."
            )
    return rows


def read_manifest(answer: Mapping[str, Any], kinds: Sequence[str]) -> Manifest:
    """Check a manifest: strict in its shape, and each path against what a run may hold."""
    entries, totals = answer.get("files"), answer.get("totals")
    if not isinstance(entries, list):
        raise OsmosisError("The platform's list of files has no files in it.")
    manifest = Manifest(totals=totals if isinstance(totals, dict) else {})
    seen: set[str] = set()
    for entry in entries:
        path, size, token = _fields(entry)
        problem = _problem(path, kinds)
        if problem is None and path.casefold() in seen:
            problem = "the platform names it twice"
        if problem:
            manifest.refused.append(FileProblem(path, problem))
            continue
        seen.add(path.casefold())
        manifest.files.append(RunFile(path, size, str(_kind_of(path)), token))
    return manifest


def run_directory(base: Path, name: str, run_id: str) -> Path:
    """Where a run's files go below ``base``; an unusual name gets the run's id behind it."""
    safe = _UNSAFE.sub("_", name).strip("_")
    usual = safe == name and safe == safe.casefold() and not _DEVICE_NAME.fullmatch(safe)
    if not usual and safe:
        suffix = f"--{_UNSAFE.sub('_', run_id).strip('_') or 'run'}"
        safe = f"{safe[: MAX_NAME - len(suffix)]}{suffix}"
    return base / (safe or run_id)


def _fields(entry: Any) -> tuple[str, int, str | None]:
    if isinstance(entry, Mapping):
        path, size, token = entry.get("path"), entry.get("size"), entry.get("token")
        if isinstance(path, str) and path and isinstance(token, str | None) and _is_size(size):
            return path, size, token
    raise OsmosisError("The platform's list of files holds an entry without a path or a size.")


def _is_size(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _kind_of(path: str) -> str | None:
    for folder in ("trajectories", "artifacts"):
        if path.startswith(f"{folder}/"):
            return folder
    return _TOP_LEVEL.get(path)


def _problem(path: str, kinds: Sequence[str]) -> str | None:
    parts = path.split("/")
    if "\\" in path or "\0" in path or any(part in ("", ".", "..") for part in parts):
        return "its path is not safe"
    if PurePosixPath(path).is_absolute() or any(len(part.encode()) > MAX_NAME for part in parts):
        return "its path is not safe"
    kind = _kind_of(path)
    if kind is None or _ARTIFACT_INDEX.fullmatch(path):
        return "a run has no such file"
    return None if kind in kinds else f"it is of the type {kind}, which was not asked for"
