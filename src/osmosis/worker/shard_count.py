"""How many shards a run gets.

A sample costs its event loop nothing while it waits. But there are turns that touch everything in
flight, when many answers come at once or connections close, and their length grows by some 45 µs of
CPU for each sample: 90 ms at 2,000 in flight, measured, and 12 ms at ``SAMPLES_A_SHARD``. As many
calls of a quarter of a second keep one processor busy, too. A further shard costs a second of CPU,
and the memory of one more shard and one more rollout process; beyond the processors it would only
take turns with the others. Behind LiteLLM a call costs several times as much, so that fewer samples
fill a processor.
"""

from __future__ import annotations

from osmosis.wire.runner import EvaluationSpec
from osmosis.worker.litellm_use import uses_litellm
from osmosis.worker.settings import MAX_SHARDS

SAMPLES_A_SHARD = 256
SAMPLES_A_LITELLM_SHARD = 64


def shard_count(spec: EvaluationSpec, *, cores: int, most: int | None = None) -> int:
    """Shards for the run, at least 1.

    No more than the processors, than ``most`` when it is set, than rows, or than model calls that
    may be in flight: each shard needs a share of everything that is dealt out.
    """
    share = SAMPLES_A_LITELLM_SHARD if uses_litellm(spec) else SAMPLES_A_SHARD
    calls = spec.advanced.get("max_concurrent_calls")
    bounds = [
        min(spec.batch_size, spec.selected_rows * spec.n) // share,
        spec.selected_rows,
        cores,
        most or MAX_SHARDS,
        *([calls] if isinstance(calls, int) else []),
    ]
    return max(1, min(bounds))
