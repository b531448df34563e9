"""``python -m osmosis.worker`` with shards whose rollouts are stand-ins."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from osmosis.worker import __main__ as worker
from osmosis.worker import nursery_process

FAKE_SHARD = str(Path(__file__).with_name("fake_shard.py"))

if __name__ == "__main__":
    nursery_process.nursery_argv = lambda: [
        sys.executable,
        FAKE_SHARD,
        str(os.getpid()),
        "nursery",
    ]
    sys.exit(worker.main())
