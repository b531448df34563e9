"""Where the files of a run are, below the data directory."""

from __future__ import annotations

from pathlib import Path

from osmosis.platform.db.models import Sample
from osmosis.platform.segments import Entry, Place
from osmosis.platform.settings import Settings


def run_dir(settings: Settings, run_id: str) -> Path:
    return settings.runs_dir / run_id


def segments_dir(settings: Settings, run_id: str) -> Path:
    return run_dir(settings, run_id) / "segments"


def artifacts_dir(settings: Settings, run_id: str) -> Path:
    return run_dir(settings, run_id) / "artifacts"


def exports_dir(settings: Settings, run_id: str) -> Path:
    """Snapshots that downloads are served from."""
    return run_dir(settings, run_id) / "exports"


def entry_of(settings: Settings, sample: Sample) -> Entry | None:
    """The sample's entry in the run's segments; None when nothing was stored for it."""
    if sample.segment is None or sample.offset is None or sample.length is None:
        return None
    place = Place(sample.segment, sample.offset, sample.length)
    return Entry(segments_dir(settings, sample.run_id), place)
