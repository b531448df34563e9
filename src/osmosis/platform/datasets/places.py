"""Where the bytes of a dataset lie: its parts while it is uploaded, then one file."""

from __future__ import annotations

import shutil
from pathlib import Path

from osmosis.platform.db.models import Dataset
from osmosis.platform.settings import Settings


def dataset_path(settings: Settings, dataset: Dataset) -> Path:
    """The file of a dataset, once it has been put together."""
    return settings.datasets_dir / f"{dataset.id}.{dataset.extension}"


def uploads_path(settings: Settings, dataset_id: str) -> Path:
    """The folder of the parts that have arrived, each a file named by its number."""
    return settings.datasets_dir / "uploads" / dataset_id


def remove_bytes(settings: Settings, dataset: Dataset) -> None:
    """Remove everything that lies on disk of a dataset."""
    dataset_path(settings, dataset).unlink(missing_ok=True)
    shutil.rmtree(uploads_path(settings, dataset.id), ignore_errors=True)
