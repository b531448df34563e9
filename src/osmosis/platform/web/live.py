"""The page of a run while it goes on: a snapshot first, then whatever part has changed.

Each event names a region of the page and carries its new HTML. A browser that connects again
gets a whole snapshot again, so nothing depends on having seen every event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import orjson

from osmosis.platform.evals.lifecycle import run_topic
from osmosis.platform.events import Events
from osmosis.platform.web.run_view import RunView
from osmosis.platform.web.templating import render
from osmosis.wire.errors import OsmosisError

REGIONS = ("status", "numbers", "chart", "errors", "spreads", "log", "samples")
PAUSE_S = 0.5
HEARTBEAT_S = 15.0


async def live_regions(
    events: Events, run_id: str, load: Callable[[], Awaitable[RunView]], workspace: str
) -> AsyncIterator[bytes]:
    """Server-sent events until the run has ended, the server stops or the browser leaves."""
    sent: dict[str, str] = {}
    yield b"retry: 1000\n\n"
    while True:
        mark = events.mark()
        try:
            view = await load()
        except OsmosisError:
            # Deleted meanwhile, or the person may not see it any more: a reload says which.
            yield _event("end", {})
            return
        for region in REGIONS:
            html = render(f"run/{region}.html", view=view, workspace=workspace)
            if sent.get(region) != html:
                sent[region] = html
                yield _event("region", {"id": region, "html": html})
        if view.ended:
            yield _event("end", {})
            return
        await asyncio.sleep(PAUSE_S)
        while not await events.wait(run_topic(run_id), HEARTBEAT_S, since=mark):
            if events.closed:
                return
            yield b": still here\n\n"


def _event(name: str, data: dict[str, str]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"
