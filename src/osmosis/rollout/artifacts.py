"""Files of one rollout: ``<root>/<rollout_id>/{artifacts/, trajectory.json}``.

The root may lie on slow or dead storage, so all of it happens on a few threads of its own and
nobody waits longer than ``STORAGE_WAIT_S``: results come first, files are best effort.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ROOT_VARIABLE = "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT"
HEALTH_MARKER = ".osmosis-health-check"
STORAGE_THREADS = 4
STORAGE_WAIT_S = 10.0
PREPARE_BACKOFF_S = (0.5, 1.0)

logger = logging.getLogger("osmosis.rollout")
_threads = ThreadPoolExecutor(STORAGE_THREADS, thread_name_prefix="osmosis-storage")


def artifact_root() -> Path:
    """The directory that gets one folder per rollout."""
    return Path(os.environ.get(ROOT_VARIABLE) or Path.home() / ".osmosis")


async def prepare_artifacts_dir(root: Path, rollout_id: str) -> Path | None:
    """Make the rollout's artifacts directory; None when the storage cannot be used."""
    problem: BaseException | None = None
    for backoff_s in (*PREPARE_BACKOFF_S, None):
        try:
            return await _on_storage(lambda: _make_directory(root / rollout_id))
        except (OSError, TimeoutError) as error:
            problem = error
        if backoff_s is None or isinstance(problem, TimeoutError):
            break
        await asyncio.sleep(backoff_s)
    logger.warning("No artifacts directory under %s: %s. The rollout goes on.", root, problem)
    return None


async def write_rollout_file(root: Path, rollout_id: str, name: str, content: bytes) -> bool:
    """Write one file of the rollout atomically; False when that was not possible in time."""
    try:
        await _on_storage(lambda: _replace_file(root / rollout_id / name, content))
    except (OSError, TimeoutError) as error:
        logger.warning("Could not save %s of rollout %s: %r", name, rollout_id, error)
        return False
    return True


async def _on_storage(work: Callable[[], T]) -> T:
    future = asyncio.get_running_loop().run_in_executor(_threads, work)
    done, _ = await asyncio.wait({future}, timeout=STORAGE_WAIT_S)
    if not done:
        future.cancel()
        raise TimeoutError(f"the storage did not answer within {STORAGE_WAIT_S:g} s")
    return future.result()


def _make_directory(rollout_dir: Path) -> Path:
    artifacts = rollout_dir / "artifacts"
    artifacts.mkdir(parents=True, exist_ok=True)
    (rollout_dir / HEALTH_MARKER).touch()
    return artifacts


def _replace_file(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_bytes(content)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
    partial.replace(path)
