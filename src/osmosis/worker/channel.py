"""What a worker and its shard say to each other: lines of JSON over the shard's stdin, a socket.

Downwards first one :class:`ShardJob` behind its length, then the words ``stop``, ``drain`` or
``abandon``; the end of the stream means that the worker is gone. Upwards one :class:`ShardState`
whenever it changes, and at least every second as a sign of life; the last one says how the shard's
slice of the run ended.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from osmosis.evaluation.slice import Slice
from osmosis.wire.runner import Claim, FinishRequest, Stage

STOP = b"stop\n"
"""End the run as its user asked."""
DRAIN = b"drain\n"
"""Another shard of the run halted it: start no new sample, and finish those in flight."""
ABANDON = b"abandon\n"
"""Let the run go: send what is graded; somebody else will go on with it."""

EXIT_ENDED = 0
"""The slice has ended, and the last state says how."""
EXIT_LEASE_LOST = 75
EXIT_ABANDONED = 76
LENGTH_BYTES = 8


class ShardJob(BaseModel):
    """Everything a shard needs. Holds the token and secret values: for the channel alone.

    ``checked``: what another shard of the run has found out of its models, so that they are not
    asked again.
    """

    url: str
    token: str
    claim: Claim
    work_dir: str
    cache_dir: str
    ledger_dir: str
    private_dirs: list[str] = Field(default_factory=list)
    platform_ahead_s: float = 0.0
    """By how much the platform's clock was ahead of this machine's when the run was claimed."""
    slice: Slice = Field(default_factory=Slice)
    has_place: bool = False
    checked: dict[str, Any] | None = None


def frame(job: ShardJob) -> bytes:
    """A job as it goes down the channel."""
    body = job.model_dump_json().encode()
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def read_job(descriptor: int) -> ShardJob | None:
    """Wait for the job, and read not a byte beyond it; None when the worker went away."""
    head = _read_exactly(descriptor, LENGTH_BYTES)
    body = _read_exactly(descriptor, int.from_bytes(head, "big")) if head else None
    return ShardJob.model_validate_json(body) if body else None


def _read_exactly(descriptor: int, count: int) -> bytes | None:
    chunks: list[bytes] = []
    while count > 0:
        chunk = os.read(descriptor, count)
        if not chunk:
            return None
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


def log_of_slice(run_dir: Path, part: Slice) -> Path:
    """Where the shards of a slice print what nobody asked them for."""
    return run_dir / f"shard-{part.index}.log"


class ShardState(BaseModel):
    """What a shard is doing. ``acknowledged`` counts the records that the platform has."""

    stage: Stage | None = None
    in_flight: int | None = None
    waiting_for: str | None = None
    effective: dict[str, Any] | None = None
    loop_lag_ms: float | None = None
    acknowledged: int = 0
    halted: FinishRequest | None = None
    """Why no shard of the run may start a new sample: how the run will end for it."""
    end: FinishRequest | None = None
    """How the slice ended; every record of it is with the platform."""
