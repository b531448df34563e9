"""What a shard's log says of samples and model calls: the failed ones, and at debug all."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from osmosis.wire.samples import SampleRecord

log = logging.getLogger("osmosis.shard")


def log_records(run_id: str, records: Iterable[SampleRecord]) -> None:
    """One line a sample and a call, with their ids. No text of a conversation or an error."""
    for record in records:
        ids = {
            "run_id": run_id,
            "row_index": record.row_index,
            "run_index": record.run_index,
            "rollout_id": record.rollout_id,
        }
        failed = record.status == "failed"
        level = logging.INFO if failed else logging.DEBUG
        if log.isEnabledFor(level):
            more = {"duration_ms": round(record.duration_ms), "error_type": record.error_type}
            log.log(level, "Sample recorded: %s.", record.status, extra={**ids, **more})
        for index, call in enumerate(record.calls):
            level = logging.INFO if call.error_kind else logging.DEBUG
            if log.isEnabledFor(level):
                log.log(
                    level,
                    "Model call ended: HTTP %d.",
                    call.http_status,
                    extra={
                        **ids,
                        "call_id": f"{record.rollout_id}/{index}",
                        "error_type": call.error_kind,
                        "duration_ms": round(call.latency_s * 1000),
                    },
                )
