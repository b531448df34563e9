"""What the gateway adds to a call, and what a streamed answer costs it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import aiohttp

from bench.parts import cpu_s
from bench.report import median, report
from lab.mock_model import mock_model
from lab.platform import ROOT
from lab.ports import free_port

LATENCY_MS = 20.0
CALLS_PER_S = 100
CALLS = 500
CHUNKS = 200
STREAMS = 200
STREAMS_AT_ONCE = 8
QUESTION = [{"role": "user", "content": "What is 12 x 12?"}]


def gateway() -> None:
    """Prints the median that the gateway adds at 100 calls a second, and the CPU of a stream."""
    with (
        mock_model(free_port(), LATENCY_MS, chunks=CHUNKS) as model,
        _gateway(model) as (
            pid,
            url,
            key,
        ),
    ):
        direct, through = asyncio.run(_latencies(f"{model}/v1", url, key))
        report(
            "gateway_added_ms_p50",
            (median(through) - median(direct)) * 1000,
            "ms",
            calls_per_s=CALLS_PER_S,
            direct_ms=round(median(direct) * 1000, 2),
        )
        asyncio.run(_streams(url, key, STREAMS_AT_ONCE))
        before = cpu_s(pid)
        asyncio.run(_streams(url, key, STREAMS))
        report(
            "stream_200_chunks_cpu_ms", (cpu_s(pid) - before) * 1000 / STREAMS, "ms", chunks=CHUNKS
        )


@contextmanager
def _gateway(model: str) -> Generator[tuple[int, str, str]]:
    """A gateway in a process of its own: its pid, and the address and key of one rollout."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.gateway_process", f"{model}/v1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield process.pid, told["url"], told["key"]
    finally:
        process.terminate()
        process.wait(10)


async def _latencies(direct: str, through: str, key: str) -> tuple[list[float], list[float]]:
    """Seconds of calls at a fixed rate, straight to the model and through the gateway in turn."""
    taken: dict[str, list[float]] = {direct: [], through: []}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call(url: str) -> None:
            began = time.perf_counter()
            async with session.post(
                f"{url}/chat/completions",
                json={"model": "mock", "messages": QUESTION},
                headers={"Authorization": f"Bearer {key}"},
            ) as response:
                await response.read()
                assert response.status == 200
            taken[url].append(time.perf_counter() - began)

        async with asyncio.TaskGroup() as calls:
            for _ in range(CALLS):
                for url in (direct, through):
                    calls.create_task(call(url))
                    await asyncio.sleep(0.5 / CALLS_PER_S)
    return taken[direct], taken[through]


async def _streams(url: str, key: str, count: int) -> None:
    async with aiohttp.ClientSession() as session:
        left = iter(range(count))

        async def lane() -> None:
            for _ in left:
                async with session.post(
                    f"{url}/chat/completions",
                    json={"model": "mock", "messages": QUESTION, "stream": True},
                    headers={"Authorization": f"Bearer {key}"},
                ) as response:
                    body = await response.read()
                assert body.count(b"data: ") == CHUNKS + 2, body[-500:]

        await asyncio.gather(*(lane() for _ in range(STREAMS_AT_ONCE)))
