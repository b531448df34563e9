"""Everything that lives as long as the server, in one object on ``app.state.platform``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from osmosis.platform.accounts.service import ensure_local_account
from osmosis.platform.db.models import Token
from osmosis.platform.db.schema import upgrade
from osmosis.platform.db.session import Database
from osmosis.platform.events import Events
from osmosis.platform.jobs.service import Jobs
from osmosis.platform.observability.metrics import Metrics
from osmosis.platform.observability.traces import Traces
from osmosis.platform.security.signing import Signer
from osmosis.platform.security.vault import Vault
from osmosis.platform.settings import Settings
from osmosis.platform.storage_state import StorageState

RESTART_PAUSE_S = 1.0

log = logging.getLogger("osmosis.platform")


@dataclass
class Platform:
    """Settings, database, keys, wake-ups, jobs, metrics, traces and the background tasks of one
    server."""

    settings: Settings
    db: Database
    vault: Vault
    signer: Signer
    events: Events
    jobs: Jobs
    metrics: Metrics
    traces: Traces
    storage: StorageState
    worker_tokens: dict[str, tuple[Token, float]] = field(default_factory=dict)
    """Worker tokens seen a moment ago, by digest, with the time until which they are believed."""

    _background: list[tuple[str, Callable[[], Awaitable[None]]]] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @classmethod
    def create(cls, settings: Settings) -> Platform:
        """The platform of a data directory. Nothing runs before :meth:`start`."""
        settings.create_directories()
        vault = Vault.open(settings)
        events = Events()
        db = Database(settings.sqlalchemy_url)
        metrics = Metrics()
        platform = cls(
            settings,
            db,
            vault,
            Signer(vault),
            events,
            jobs=Jobs(settings, db, events),
            metrics=metrics,
            traces=Traces(settings, metrics),
            storage=StorageState(metrics),
        )
        platform.background("jobs", platform.jobs.run)
        return platform

    def background(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` from start to close. It is restarted when it raises."""
        self._background.append((name, work))

    async def start(self) -> None:
        """Bring the schema up to date, make the local account, start the background tasks."""
        await asyncio.to_thread(upgrade, self.settings.sqlalchemy_url)
        await ensure_local_account(self.db, self.settings)
        self.traces.start()
        for name, work in self._background:
            self._tasks.append(asyncio.create_task(_keep_running(name, work), name=name))

    async def close(self) -> None:
        """Release every waiter, end the background tasks, close the database."""
        self.events.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.traces.close()
        await self.db.close()


async def _keep_running(name: str, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await work()
            return
        except Exception:
            log.exception("The background task %s failed and starts again.", name)
            await asyncio.sleep(RESTART_PAUSE_S)
