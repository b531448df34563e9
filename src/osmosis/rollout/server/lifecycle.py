"""The server's life around its user's own lifespan: serve, stop admitting, drain, release."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import FastAPI

from osmosis.rollout.backend.base import ExecutionBackend
from osmosis.rollout.descriptor_table import grow_descriptor_table
from osmosis.rollout.model import close_sessions
from osmosis.rollout.server.registry import Registry

DRAIN_S = 10.0
CLEANUP_S = 120.0
FORCE_S = 10.0
COLLECT_THRESHOLDS = 5_000, 1, 100
"""Many objects in a look at the young, few looks before one at those that were left: the server
stands still for milliseconds each time, however many rollouts run."""
PYTHONS_OWN_THRESHOLDS = 2_000
"""Up to here the first threshold is Python's own, of whichever version."""

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]

logger = logging.getLogger("osmosis.rollout")


def rollout_lifespan(
    backend: ExecutionBackend, registry: Registry, inner: Lifespan | None
) -> Lifespan:
    """A lifespan that drains the rollouts before the user's own lifespan closes."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[Any]:
        async with AsyncExitStack() as stack:
            state = None if inner is None else await stack.enter_async_context(inner(app))
            grow_descriptor_table()
            # What is imported by now stays, and a sample leaves few cycles behind: looking for
            # them after every few hundred objects is all cost.
            gc.freeze()
            if 0 < gc.get_threshold()[0] <= PYTHONS_OWN_THRESHOLDS:
                gc.set_threshold(*COLLECT_THRESHOLDS)
            try:
                yield state
            finally:
                await drain(registry)
                await backend.shutdown()
                await close_sessions()

    return lifespan


async def drain(registry: Registry) -> None:
    """Admit nothing more; let rollouts end, then cancel them, then stop waiting for them."""
    registry.accepting = False
    if await _settle(registry, DRAIN_S):
        return
    dispositions = registry.cancel()
    logger.warning("Cancelled %d unfinished rollouts at shutdown", len(dispositions))
    if await _settle(registry, CLEANUP_S):
        return
    for task in registry.tasks:
        task.cancel()
    if not await _settle(registry, FORCE_S):
        logger.error("Left %d rollouts behind that ignore cancellation", len(registry.tasks))


async def _settle(registry: Registry, patience_s: float) -> bool:
    tasks = registry.tasks
    if tasks:
        await asyncio.wait(tasks, timeout=patience_s)
    return not registry.tasks
