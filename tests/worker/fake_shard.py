"""A real shard process whose rollout, gateway and environment are the engine tests' stand-ins."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from osmosis.wire.errors import RunFailed  # noqa: E402
from osmosis.worker import shard  # noqa: E402
from tests.evaluation.engine_fakes import World  # noqa: E402


def fake_parts(on_upstream):
    root = Path.cwd() / f"trials-{os.getpid()}"
    root.mkdir(exist_ok=True)
    most = os.environ.get("FAKE_MAX_CONCURRENT")
    fault = os.environ.get("FAKE_FAULT")
    return World(
        max_concurrent=int(most) if most else None,
        artifact_root=root,
        on_upstream=on_upstream,
        faults=[RunFailed(fault, "The model says no.")] if fault else [],
    ).parts()


if __name__ == "__main__":
    shard.real_parts = fake_parts
    shard.main()
