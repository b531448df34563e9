"""The worker: claims runs, gives each to a shard, keeps its lease, for as long as it lives."""

from __future__ import annotations

import asyncio
import logging
import os
import platform as machine
import random
import secrets
import signal
from pathlib import Path

from osmosis.evaluation.process_life import adopt_orphans
from osmosis.wire.runner import Claim
from osmosis.worker.client import RunnerClient
from osmosis.worker.errors import Refused, RunnerError
from osmosis.worker.lost_calls import report_lost_calls
from osmosis.worker.own_dir import own_dir
from osmosis.worker.run_keeper import RunKeeper
from osmosis.worker.settings import WorkerSettings
from osmosis.worker.shards import Shards

CLAIM_WAIT_S = 10.0
"""Shorter than a lease: what a killed worker asked for must be over when its run comes free."""
BACKOFF_FIRST_S, BACKOFF_MOST_S = 0.2, 5.0
REFUSED_PAUSE_S = 10.0

log = logging.getLogger("osmosis.worker")


async def run_worker(settings: WorkerSettings) -> None:
    """Work until SIGTERM or SIGINT."""
    adopt_orphans()
    with own_dir(settings.work_dir) as directory:
        worker = Worker(settings, directory)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        await worker.run()


class Worker:
    """Executes up to ``settings.slots`` runs at once."""

    def __init__(self, settings: WorkerSettings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._id = f"{machine.node()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._token = settings.read_token()
        self._client = RunnerClient(settings.url, self._token)
        self._shards = Shards(directory / "processes")
        self._slots = asyncio.Semaphore(settings.slots)
        self._keepers: dict[RunKeeper, asyncio.Task[None]] = {}
        self._claiming: asyncio.Task[None] | None = None
        self._serial = 0

    async def run(self) -> None:
        """Claim and execute until :meth:`stop`."""
        self._shards.prepare()
        log.info("Worker %s claims runs from %s.", self._id, self._settings.url)
        reporting = asyncio.create_task(
            report_lost_calls(lambda: self._client, self._settings.ledger_dir)
        )
        self._claiming = asyncio.create_task(self._claim_runs())
        try:
            await asyncio.gather(self._claiming, return_exceptions=True)
        finally:
            await asyncio.gather(
                *(keeper.abandon() for keeper in list(self._keepers)), return_exceptions=True
            )
            await asyncio.gather(*self._keepers.values(), return_exceptions=True)
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
            await self._shards.close()
            await self._client.close()

    def stop(self) -> None:
        """Take no more runs, and let those in hand go."""
        if self._claiming is not None:
            self._claiming.cancel()

    async def _claim_runs(self) -> None:
        delay_s = BACKOFF_FIRST_S
        while True:
            await self._slots.acquire()
            claim: Claim | None = None
            try:
                holding = [keeper.run_id for keeper in self._keepers]
                claim = await self._client.claim(self._id, CLAIM_WAIT_S, holding)
                delay_s = BACKOFF_FIRST_S
            except Refused as error:
                log.error("The platform refuses this worker: %s", error)
                await self._renew_token()
                await asyncio.sleep(REFUSED_PAUSE_S)
            except RunnerError as error:
                log.warning("No claim: %s", error)
                await asyncio.sleep(delay_s * random.uniform(0.5, 1))  # noqa: S311 - spreads load
                delay_s = min(delay_s * 2, BACKOFF_MOST_S)
            finally:
                if claim is None:
                    self._slots.release()
            if claim is not None:
                self._begin(claim)

    def _begin(self, claim: Claim) -> None:
        spec = claim.spec
        self._serial += 1
        keeper = RunKeeper(
            self._settings,
            claim,
            self._client.run(spec.run_id, claim.lease_token),
            self._shards,
            directory=self._directory / f"{spec.run_id}-{self._serial}",
            token=self._token,
        )
        log.info("The run is ours.", extra={"run_id": spec.run_id, "run": spec.name})
        task = asyncio.create_task(keeper.keep())
        self._keepers[keeper] = task
        task.add_done_callback(lambda done: self._ended(keeper, done))

    def _ended(self, keeper: RunKeeper, task: asyncio.Task[None]) -> None:
        self._keepers.pop(keeper, None)
        self._slots.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Keeping a run failed.", exc_info=error)

    async def _renew_token(self) -> None:
        """The token file may hold a newer token by now."""
        if self._settings.token_file is None:
            return
        try:
            token = self._settings.read_token()
        except OSError as error:
            log.error("The token file cannot be read: %s", error)
            return
        if token != self._token and not self._keepers:
            await self._client.close()
            self._token = token
            self._client = RunnerClient(self._settings.url, token)
