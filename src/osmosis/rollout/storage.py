"""File work off the event loop, on storage that may be slow or dead.

A thread pool of the standard library costs half a millisecond of CPU for each job, more than the
files themselves; one thread that takes jobs from a queue costs a tenth of that. More threads
join only while jobs pile up, and nobody waits for storage longer than ``STORAGE_WAIT_S``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

STORAGE_WAIT_S = 10.0
THREADS_MAX = 4
BACKLOG_PER_THREAD = 8
BACKLOG_MAX = 1000

_Job = tuple[Callable[[], Any], asyncio.Future[Any]]


class Storage:
    """Runs short file jobs for event loops. The threads die with the process."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Do ``work`` on a thread; raises ``TimeoutError`` when the storage does not answer."""
        waiting = self._jobs.qsize()
        if waiting > BACKLOG_MAX:
            raise TimeoutError(f"the storage is {waiting} files behind")
        if waiting >= self._threads * BACKLOG_PER_THREAD and self._threads < THREADS_MAX:
            self._threads += 1
            threading.Thread(target=self._serve, name="osmosis-storage", daemon=True).start()
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        late = TimeoutError(f"the storage did not answer within {STORAGE_WAIT_S:g} s")
        timer = loop.call_later(STORAGE_WAIT_S, _settle, outcome, None, late)
        self._jobs.put((work, outcome))
        try:
            return await outcome
        finally:
            timer.cancel()

    def _serve(self) -> None:
        while True:
            work, outcome = self._jobs.get()
            if outcome.done():
                continue
            result, error = None, None
            try:
                result = work()
            except Exception as caught:
                error = caught
            try:
                outcome.get_loop().call_soon_threadsafe(_settle, outcome, result, error)
            except RuntimeError:
                continue  # the loop was closed meanwhile


def _settle(outcome: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if outcome.done():
        return
    if error is None:
        outcome.set_result(result)
    else:
        outcome.set_exception(error)
