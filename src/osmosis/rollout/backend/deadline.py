"""User code under a time limit: it is told to stop, and is left behind when it does not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from osmosis.rollout.errors import PhaseTimeout, UserCodeExit

T = TypeVar("T")

CANCEL_GRACE_S = 5.0

logger = logging.getLogger("osmosis.rollout")
_left_behind: set[asyncio.Task[Any]] = set()


async def run_limited(
    work: Coroutine[Any, Any, T], *, limit_s: float | None, phase: str, waited_s: float = 0.0
) -> T:
    """Await ``work`` for at most ``limit_s`` less ``waited_s``, spent before it could start.

    Work that ends late, because it swallowed its cancellation or blocked the event loop, counts
    as timed out all the same. Work that does not end at all is left behind after a grace, so
    that it cannot hold a slot for ever.
    """
    started = time.monotonic()
    budget_s = None if limit_s is None else limit_s - waited_s
    if budget_s is not None and budget_s <= 0:
        work.close()
        raise PhaseTimeout(_timeout_message(phase, limit_s, waited_s))
    task = asyncio.ensure_future(_guarded(work, phase))
    try:
        done, _ = await asyncio.wait({task}, timeout=budget_s)
    except asyncio.CancelledError:
        await _stop(task, phase)
        raise
    if not done:
        await _stop(task, phase)
    if budget_s is not None and (not done or time.monotonic() - started > budget_s):
        if task.done() and not task.cancelled():
            task.exception()
        raise PhaseTimeout(_timeout_message(phase, limit_s, waited_s))
    return task.result()


def _timeout_message(phase: str, limit_s: float | None, waited_s: float) -> str:
    queued = f", of which {waited_s:.1f} s were spent waiting" if waited_s >= 0.1 else ""
    return f"{phase} did not finish within its limit of {limit_s:g} s{queued}"


async def _guarded(work: Coroutine[Any, Any, T], phase: str) -> T:
    """Keep what user code raises from ending the server or looking like a cancellation."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise UserCodeExit(f"{phase} called for the process to exit ({error!r})") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise UserCodeExit(f"{phase} cancelled itself") from error


async def _stop(task: asyncio.Task[Any], phase: str) -> None:
    if task.done():
        return
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_GRACE_S)
    if not task.done():
        logger.error("%s ignores its cancellation and was left behind", phase)
        _left_behind.add(task)
        task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()
