"""Downloads of a run (platform-api.md §3.6): a manifest with exact sizes, then signed addresses.

``metrics.json``, ``summary.jsonl`` and ``logs.txt`` are snapshots: a manifest writes them below
``exports/`` under a version of their contents, and the version is the token that comes back. So a
file has the size that was promised, also when the run goes on in between. Trajectories are put
together from the segments while they are sent; their size was counted when they came in.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.dataset.selection import parse_ranges
from osmosis.platform.db.models import Run, RunLog, Sample
from osmosis.platform.evals.documents import SampleRow, metrics_json, summary_row
from osmosis.platform.evals.numbers import Numbers
from osmosis.platform.evals.places import artifacts_dir, exports_dir
from osmosis.platform.paging import iso
from osmosis.platform.platform import Platform
from osmosis.platform.runners.artifacts import list_artifacts
from osmosis.platform.settings import Settings
from osmosis.wire.errors import Conflict, NotFound, ValidationFailed, did_you_mean

TYPES = ("metrics", "trajectories", "artifacts", "logs")
EXPORT_LIFETIME_S = 3600.0
BATCH = 1000
T = TypeVar("T")
MAX_URLS = 500
TRAJECTORY = re.compile(r"trajectories/row_(\d{1,18})_run_(\d{1,18})\.json")
ARTIFACT = re.compile(r"artifacts/row_(\d{1,18})_run_(\d{1,18})/(.+)", re.DOTALL)
SNAPSHOTS = {"metrics.json": "metrics", "summary.jsonl": "trajectories", "logs.txt": "logs"}


@dataclass(frozen=True)
class Download:
    """One file that can be fetched."""

    path: str
    size: int
    token: str

    def body(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size, "token": self.token}


def parse_types(text: str | None) -> list[str]:
    """The kinds of files that ``?types=a,b`` asks for."""
    if not text:
        return ["metrics", "trajectories"]
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    for kind in wanted:
        if kind == "all":
            return list(TYPES)
        if kind not in TYPES:
            raise ValidationFailed(
                f"There is no download type '{kind}'.{did_you_mean(kind, TYPES)}",
                hint=f"The types are {', '.join(TYPES)}.",
                field="types",
            )
    return wanted


async def manifest(
    platform: Platform, numbers: Numbers, run: Run, types: Sequence[str], rows: str | None
) -> dict[str, Any]:
    """Every file of the wanted kinds, with its exact size."""
    if run.status == "pending":
        raise Conflict(
            f"The run '{run.name}' has not begun; there is nothing to download yet.",
            platform_code="RUN_PENDING",
        )
    chosen = set(parse_ranges(rows)) if rows else None
    if chosen and max(chosen) >= run.selected_rows:
        raise ValidationFailed(
            f"Row {max(chosen)} does not exist: the run has {run.selected_rows} rows, from 0.",
            field="rows",
        )
    files = [
        await _snapshot(platform, numbers, run, path)
        for path, kind in SNAPSHOTS.items()
        if kind in types
    ]
    if "trajectories" in types or "artifacts" in types:
        root = artifacts_dir(platform.settings, run.id) if "artifacts" in types else None
        with_trajectories = "trajectories" in types

        def list_files(samples: Sequence[SampleRow]) -> list[Download]:
            wanted = [s for s in samples if chosen is None or s.row_index in chosen]
            found = _trajectories(wanted) if with_trajectories else []
            return found + _artifacts(root, wanted) if root else found

        async for found in _batches(platform, run.id, list_files):
            files.extend(found)
    return {
        "files": [file.body() for file in files],
        "totals": {"files": len(files), "bytes": sum(file.size for file in files)},
    }


def check_path(path: str) -> None:
    """Refuse an address for something that is not a file of a run."""
    if path not in SNAPSHOTS and not TRAJECTORY.fullmatch(path) and not ARTIFACT.fullmatch(path):
        raise NotFound(f"A run has no file '{path}'.")


def export_file(platform: Platform, run_id: str, path: str, token: str) -> Path:
    """The snapshot that a manifest made under this token."""
    file = exports_dir(platform.settings, run_id) / f"{token}-{path}"
    if not re.fullmatch(r"[a-z0-9-]{1,64}", token) or not file.is_file():
        raise NotFound(
            f"This snapshot of {path} is gone.", hint="Ask for the manifest again.", field="token"
        )
    return file


async def sample_of(session: AsyncSession, run_id: str, row: str, run_index: str) -> Sample:
    query = select(Sample).where(
        Sample.run_id == run_id, Sample.row_index == int(row), Sample.run_index == int(run_index)
    )
    found = (await session.execute(query)).scalar_one_or_none()
    if found is None:
        raise NotFound(f"The run has no sample of row {row}, run {run_index}.")
    return found


async def list_sample_artifacts(settings: Settings, sample: Sample) -> list[Download]:
    """The artifacts of one sample."""
    root = artifacts_dir(settings, sample.run_id)
    return await asyncio.to_thread(_artifacts, root, [sample])


async def _snapshot(platform: Platform, numbers: Numbers, run: Run, path: str) -> Download:
    """Write one of the snapshots, unless this version of it is there already."""
    directory = exports_dir(platform.settings, run.id)
    version = await _version(platform, run, path)
    file = directory / f"{version}-{path}"
    if not await asyncio.to_thread(file.is_file):
        await asyncio.to_thread(prepare_exports, directory)
        temporary = directory / f".{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as stream:
                async for chunk in _contents(platform, numbers, run, path):
                    await asyncio.to_thread(stream.write, chunk)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    return Download(path, (await asyncio.to_thread(file.stat)).st_size, version)


async def _version(platform: Platform, run: Run, path: str) -> str:
    """A name that changes with the contents."""
    if path == "logs.txt":
        async with platform.db.read() as session:
            last = select(func.coalesce(func.max(RunLog.id), 0)).where(RunLog.run_id == run.id)
            return f"{(await session.execute(last)).scalar_one()}"
    return f"{run.generation}-{run.sample_count}-{run.status}"


def _contents(platform: Platform, numbers: Numbers, run: Run, path: str) -> AsyncIterator[bytes]:
    if path == "metrics.json":
        return _metrics(platform, numbers, run)
    return _logs(platform, run.id) if path == "logs.txt" else _summary(platform, run)


async def _metrics(platform: Platform, numbers: Numbers, run: Run) -> AsyncIterator[bytes]:
    summary = await numbers.summary(run)
    yield orjson.dumps(metrics_json(run, summary), option=orjson.OPT_INDENT_2) + b"\n"


async def _summary(platform: Platform, run: Run) -> AsyncIterator[bytes]:
    def lines(samples: Sequence[SampleRow]) -> bytes:
        return b"".join(orjson.dumps(summary_row(s, run.reopened_at)) + b"\n" for s in samples)

    async for chunk in _batches(platform, run.id, lines):
        yield chunk


async def _logs(platform: Platform, run_id: str) -> AsyncIterator[bytes]:
    last = 0
    while True:
        query = select(RunLog).where(RunLog.run_id == run_id, RunLog.id > last)
        async with platform.db.read() as session:
            query = query.order_by(RunLog.id).limit(BATCH)
            lines = (await session.execute(query)).scalars().all()
        if not lines:
            return
        last = lines[-1].id
        yield "".join(map(log_line, lines)).encode()


def log_line(line: RunLog) -> str:
    """One line of ``logs.txt``."""
    details = f" {orjson.dumps(line.details).decode()}" if line.details else ""
    return f"{iso(line.timestamp)} {line.level.upper()} [{line.step}] {line.message}{details}\n"


async def _batches(
    platform: Platform, run_id: str, make: Callable[[Sequence[SampleRow]], T]
) -> AsyncIterator[T]:
    """What ``make`` makes of the run's samples by (row, run), some at a time.

    Rows are read and ``make`` runs off the event loop, and no transaction is held in between.
    """
    after = (0, -1)
    while True:
        row, run = after
        query = (
            select(*(getattr(Sample, name) for name in SampleRow._fields))
            .where(Sample.run_id == run_id, Sample.row_index >= row)
            .where((Sample.row_index > row) | (Sample.run_index > run))
            .order_by(Sample.row_index, Sample.run_index)
            .limit(BATCH)
        )

        def read(connection: Connection, query: Any = query) -> tuple[tuple[int, int], T] | None:
            samples = [SampleRow(*found) for found in connection.execute(query)]
            if not samples:
                return None
            return (samples[-1].row_index, samples[-1].run_index), make(samples)

        found = await platform.db.examine(read)
        if found is None:
            return
        after, made = found
        yield made


def _trajectories(samples: Iterable[SampleRow]) -> list[Download]:
    return [
        Download(
            f"trajectories/row_{sample.row_index}_run_{sample.run_index}.json",
            sample.record["trajectory_bytes"],
            sample.rollout_id,
        )
        for sample in samples
        if sample.record.get("trajectory_bytes") is not None
    ]


def _artifacts(root: Path, samples: Iterable[SampleRow | Sample]) -> list[Download]:
    return [
        Download(
            f"artifacts/row_{sample.row_index}_run_{sample.run_index}/{path}",
            size,
            sample.rollout_id,
        )
        for sample in samples
        if sample.record.get("artifacts")
        for path, size in list_artifacts(root, sample.rollout_id)
    ]


def prepare_exports(directory: Path) -> None:
    """Make room for a file to be fetched; those that nobody can still be fetching go away."""
    directory.mkdir(parents=True, exist_ok=True)
    oldest = time.time() - EXPORT_LIFETIME_S
    for file in directory.iterdir():
        if file.stat().st_mtime < oldest:
            file.unlink(missing_ok=True)
