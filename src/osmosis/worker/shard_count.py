"""How many shards a run gets.

A sample in flight costs its event loop nothing while it waits; what counts is that hundreds of
them start, and are answered, at the same moment. About ``SAMPLES_A_SHARD`` at once keep each turn
of a shard's and a rollout's loop short. A further shard costs a second of CPU, and the memory of
one more shard and one more rollout process; beyond the processors it would only take turns with
the others.
"""

from __future__ import annotations

from osmosis.wire.runner import EvaluationSpec
from osmosis.worker.settings import MAX_SHARDS

SAMPLES_A_SHARD = 256


def shard_count(spec: EvaluationSpec, *, cores: int, most: int | None = None) -> int:
    """Shards for the run, at least 1.

    No more than the processors, than ``most`` when it is set, than rows, or than model calls that
    may be in flight: each shard needs a share of everything that is dealt out.
    """
    calls = spec.advanced.get("max_concurrent_calls")
    bounds = [
        min(spec.batch_size, spec.selected_rows * spec.n) // SAMPLES_A_SHARD,
        spec.selected_rows,
        cores,
        most or MAX_SHARDS,
        *([calls] if isinstance(calls, int) else []),
    ]
    return max(1, min(bounds))
