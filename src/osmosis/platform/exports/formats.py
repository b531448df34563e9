"""The formats of an export, and what their files are called."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """``ending`` comes after the name of the run."""

    ending: str
    media_type: str


FORMATS = {
    "jsonl": Format(".jsonl", "application/x-ndjson"),
    "csv": Format(".csv", "text/csv"),
    "parquet": Format(".parquet", "application/vnd.apache.parquet"),
    "atif": Format("-atif.zip", "application/zip"),
    "inspect": Format(".eval", "application/zip"),
    "junit": Format("-junit.xml", "application/xml"),
    "html": Format(".html", "text/html"),
}
