"""Files of one rollout: ``<root>/<rollout_id>/{artifacts/, trajectory.json}``.

Results come first, files are best effort: a root that cannot be used never fails a rollout.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from osmosis.rollout.storage import Storage

ROOT_VARIABLE = "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT"
HEALTH_MARKER = ".osmosis-health-check"
PREPARE_BACKOFF_S = (0.05, 0.2)
"""Short: user code that asks for the directory waits for it on the event loop."""

logger = logging.getLogger("osmosis.rollout")
_storage = Storage()


def artifact_root() -> Path:
    """The directory that gets one folder per rollout."""
    return Path(os.environ.get(ROOT_VARIABLE) or Path.home() / ".osmosis")


def lazy_artifacts_dir(root: Path, rollout_id: str) -> Callable[[], Path | None]:
    """A function that makes the rollout's artifacts directory once, for workflow and grader.

    It answers None when the storage cannot be used after a few tries; the rollout goes on.
    """

    @cache
    def make() -> Path | None:
        problem: OSError | None = None
        for backoff_s in (0.0, *PREPARE_BACKOFF_S):
            time.sleep(backoff_s)
            try:
                return _make_directory(f"{root}/{rollout_id}")
            except OSError as error:
                problem = error
        logger.warning("No artifacts directory under %s: %s. The rollout goes on.", root, problem)
        return None

    return make


async def write_rollout_file(root: Path, rollout_id: str, name: str, content: bytes) -> bool:
    """Write one file of the rollout atomically; False when that was not possible in time."""
    rollout_dir = f"{root}/{rollout_id}"
    try:
        await _storage.run(lambda: _replace_file(rollout_dir, name, content))
    except (OSError, TimeoutError) as error:
        logger.warning("Could not save %s of rollout %s: %r", name, rollout_id, error)
        return False
    return True


# Plain os calls from here on: this is done for every rollout, and pathlib doubles its price.
# ruff: noqa: PTH102, PTH103, PTH105


def _make_directory(rollout_dir: str) -> Path:
    artifacts = f"{rollout_dir}/artifacts"
    try:
        os.mkdir(rollout_dir)
        os.mkdir(artifacts)
    except OSError:
        os.makedirs(artifacts, exist_ok=True)
    os.close(os.open(f"{rollout_dir}/{HEALTH_MARKER}", os.O_WRONLY | os.O_CREAT, 0o644))
    return Path(artifacts)


def _replace_file(rollout_dir: str, name: str, content: bytes) -> None:
    partial = f"{rollout_dir}/{name}.partial"
    try:
        _write(partial, content)
    except FileNotFoundError:
        os.makedirs(rollout_dir, exist_ok=True)
        _write(partial, content)
    os.replace(partial, f"{rollout_dir}/{name}")


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
