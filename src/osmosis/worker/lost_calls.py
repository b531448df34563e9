"""Reports the model calls that died with their shards, also those of earlier workers here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from osmosis.wire.runner import LostCalls
from osmosis.wire.spending import Spending
from osmosis.worker.call_ledger import DeadLedger, dead_ledgers
from osmosis.worker.client import RunnerClient
from osmosis.worker.errors import Refused, RunnerError

LOOK_INTERVAL_S = 1.0
GONE_STATUS = 404

log = logging.getLogger("osmosis.worker")


async def report_lost_calls(client: Callable[[], RunnerClient], directory: Path) -> None:
    """Report every ledger in ``directory`` whose shard is gone, for ever."""
    while True:
        try:
            for ledger in dead_ledgers(directory):
                await _report(client(), ledger)
        except (RunnerError, OSError) as error:
            log.debug("Lost calls cannot be reported yet: %s", error)
        await asyncio.sleep(LOOK_INTERVAL_S)


async def _report(client: RunnerClient, ledger: DeadLedger) -> None:
    if ledger.lost or ledger.spent != Spending():
        try:
            await client.lost_calls(
                ledger.run_id,
                LostCalls(shard_id=ledger.shard_id, calls=ledger.lost, spent=ledger.spent),
            )
        except Refused as error:
            if error.status != GONE_STATUS:
                raise
            log.warning("%d lost calls belong to a deleted run.", ledger.lost)
    ledger.path.unlink(missing_ok=True)
