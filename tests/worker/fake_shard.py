"""Real shard processes whose rollout, gateway and environment are the engine tests' stand-ins.

fake_shard.py WORKER_PID shard
fake_shard.py WORKER_PID nursery [litellm]    LiteLLM is a name that its shards keep
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from osmosis.wire.errors import RunFailed  # noqa: E402
from osmosis.worker import shard, shard_nursery  # noqa: E402
from tests.evaluation.engine_fakes import World  # noqa: E402

PR_SET_NAME = 15


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


def fake_litellm():
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"has-litellm")


if __name__ == "__main__":
    if os.environ.get("FAKE_THREAD"):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    shard.real_parts = fake_parts
    shard_nursery.preload = fake_litellm
    (shard_nursery if "nursery" in sys.argv else shard).main()
