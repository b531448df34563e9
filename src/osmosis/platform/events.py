"""Wake-ups inside one server process: who waits for a topic learns that something changed.

An event carries no data: the waiter looks in the database again. A waiter that takes
``mark()`` before it looks, and waits ``since`` that mark, cannot miss a change in between:

    mark = events.mark()
    while not (found := await look()):
        if not await events.wait("runs", timeout_s, since=mark): break
        mark = events.mark()
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict

REMEMBERED_TOPICS = 4096


class Events:
    """Publish and wait by topic, on one event loop."""

    def __init__(self) -> None:
        self._count = 0
        self._last: OrderedDict[str, int] = OrderedDict()
        self._forgotten = 0
        self._waiters: defaultdict[str, set[asyncio.Future[bool]]] = defaultdict(set)
        self.closed = False

    def mark(self) -> int:
        """The present moment, to hand to ``wait(since=...)``."""
        return self._count

    def publish(self, topic: str) -> None:
        """Wake everyone who waits for the topic now, and remember that it changed."""
        self._count += 1
        self._last[topic] = self._count
        self._last.move_to_end(topic)
        if len(self._last) > REMEMBERED_TOPICS:
            _, self._forgotten = self._last.popitem(last=False)
        for waiter in self._waiters.pop(topic, ()):
            if not waiter.done():
                waiter.set_result(True)

    async def wait(self, topic: str, timeout_s: float, *, since: int | None = None) -> bool:
        """True once the topic was published (after ``since``); False at the timeout or the end."""
        if self.closed:
            return False
        if since is not None and self._last.get(topic, self._forgotten) > since:
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters[topic].add(waiter)
        timer = asyncio.get_running_loop().call_later(timeout_s, _give_up, waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            waiting = self._waiters.get(topic)
            if waiting is not None:
                waiting.discard(waiter)
                if not waiting:
                    del self._waiters[topic]

    def close(self) -> None:
        """Release every waiter: the server stops."""
        self.closed = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                _give_up(waiter)


def _give_up(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
