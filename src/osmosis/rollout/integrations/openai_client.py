"""An ``openai`` client for the run's own model, on connections that the whole process shares."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from weakref import WeakKeyDictionary

import openai

from osmosis.rollout.links import model_settings
from osmosis.rollout.model import also_close

CONNECT_TIMEOUT_S = 30.0

# A client of its own for every row costs 27 ms of CPU; deriving one from these costs 0.2 ms.
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = WeakKeyDictionary()

# One line for every model call would drown what a row itself prints.
for _name in ("httpx", "httpx2"):
    if logging.getLogger(_name).level == logging.NOTSET:
        logging.getLogger(_name).setLevel(logging.WARNING)


def rollout_client() -> openai.AsyncOpenAI:
    """A client that talks to the run's own model, for use while ``AgentWorkflow.run`` is active.

    It waits as long as the rollout may, and leaves retrying to the platform. Do not close it:
    its connections belong to all rollouts of the process.
    """
    return _shared_client().with_options(**model_settings().for_openai())


class RolloutClient:
    """Stands in for a client where a framework wants one before there is a rollout."""

    @property
    def chat(self) -> Any:
        return rollout_client().chat

    @property
    def beta(self) -> Any:
        return rollout_client().beta


async def _close() -> None:
    client = _clients.pop(asyncio.get_running_loop(), None)
    if client is not None:
        await client.close()


also_close(_close)


def _shared_client() -> openai.AsyncOpenAI:
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None or client.is_closed():
        client = _clients[loop] = openai.AsyncOpenAI(
            base_url="http://none.invalid",
            api_key="none",
            http_client=_http_client(),
            max_retries=0,
            timeout=openai.Timeout(None, connect=CONNECT_TIMEOUT_S),
        )
    return client


def _http_client() -> Any:
    """On aiohttp, whose pool stays cheap with many calls in flight; the model is on this host."""
    try:
        return openai.DefaultAioHttpClient(trust_env=False)
    except RuntimeError:  # installed without aiohttp's adapter
        return openai.DefaultAsyncHttpxClient(trust_env=False)
