"""A worker beside the server, started as its operator would start it on another machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from lab.platform import Lab


@contextmanager
def own_worker(lab: Lab, url: str, more: Mapping[str, str] | None = None) -> Generator[None]:
    """It finds the platform at ``url``, and ``more`` in its environment."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "osmosis.worker"],
        env={
            **lab.env,
            "PATH": os.environ["PATH"],
            "OSMOSIS_WORKER_URL": url,
            "OSMOSIS_WORKER_TOKEN_FILE": str(lab.data / "worker-token"),
            "OSMOSIS_WORKER_DIR": str(lab.data),
            **(more or {}),
        },
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(30)
