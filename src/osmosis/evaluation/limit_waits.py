"""Time that a sample spent waiting for the provider's limit, as its error tells it."""

from __future__ import annotations

from collections.abc import Sequence

from osmosis.wire.samples import ModelCall

WORTH_TELLING_S = 1.0


def limit_wait_text(calls: Sequence[ModelCall]) -> str:
    """A sentence to follow a timeout's own, with a space before it; empty without such a wait."""
    waited_s = sum(call.queue_s for call in calls)
    in_queue = [call for call in calls if call.ended_in_queue]
    if not in_queue and waited_s < WORTH_TELLING_S:
        return ""
    answers = sorted({str(r.http_status or r.kind) for call in calls for r in call.retries or ()})
    answered = f" (the provider answered {', '.join(answers)})" if answers else ""
    if in_queue:
        return (
            f" It was waiting for the provider's limit when its time was over{answered}: "
            f"{waited_s:.1f} s in all went into that. Lower batch_size, or raise the timeout."
        )
    return f" {waited_s:.1f} s of its time went into waiting for the provider's limit{answered}."
