"""``python -m osmosis.platform.datasets.ingest_process``: the job that takes a dataset in.

Puts the uploaded parts together into the dataset's file, hashes it, and validates it. JSON in on
stdin, JSON out on stdout. A second run after a crash goes on from what the first one left.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, BinaryIO

from osmosis.dataset.validation_process import validated

COPY_BYTES = 4 * 1024 * 1024


def main() -> None:
    request = json.load(sys.stdin)
    path = Path(request["path"])
    sha256 = assemble(path, Path(request["uploads"]))
    report = validated(request)
    json.dump({**report, "sha256": sha256}, sys.stdout)


def assemble(path: Path, uploads: Path) -> str:
    """Make the file out of its parts, unless it is there already; return its SHA-256."""
    parts = sorted((int(p.name), p) for p in uploads.glob("*") if p.name.isdecimal())
    if path.exists():
        digest = _digest_of(path)
    elif len(parts) == 1:
        digest = _digest_of(parts[0][1])
        parts[0][1].rename(path)
    else:
        digest = _joined([part for _, part in parts], path)
    shutil.rmtree(uploads, ignore_errors=True)
    return digest


def _joined(parts: list[Path], path: Path) -> str:
    temporary = path.with_name(f".{path.name}.part")
    digest = hashlib.sha256()
    with temporary.open("wb") as target:
        for part in parts:
            with part.open("rb") as source:
                _copy(source, target, digest)
        target.flush()
        os.fsync(target.fileno())
    temporary.rename(path)
    return digest.hexdigest()


def _copy(source: BinaryIO, target: BinaryIO, digest: Any) -> None:
    while chunk := source.read(COPY_BYTES):
        target.write(chunk)
        digest.update(chunk)


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    main()
