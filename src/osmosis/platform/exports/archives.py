"""ATIF documents, one file for each sample, in a ZIP archive."""

from __future__ import annotations

import zipfile
from pathlib import Path

from osmosis.platform.exports.stored import StoredRun

COMPRESSION_LEVEL = 1
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every member: the same run gives the same archive."""


def member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def new_archive(path: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL)


def write_atif(run: StoredRun, path: Path) -> None:
    """``row_R_run_N.json`` for each sample that has a trajectory."""
    with new_archive(path) as archive:
        for sample in run.samples():
            if sample.entry is None or sample.entry.document is None:
                continue
            info = member(f"row_{sample.row_index}_run_{sample.run_index}.json")
            with archive.open(info, "w", force_zip64=True) as out:
                for piece in sample.entry.read_document():
                    out.write(piece)
