from __future__ import annotations

import asyncio

import pytest

from osmosis.wire.errors import RunFailed
from osmosis.worker import row_stream
from osmosis.worker.client import RunnerClient
from osmosis.worker.row_stream import RowStream
from tests.worker.runner_api import TOKEN, FakePlatform


@pytest.fixture
async def platform():
    async with FakePlatform(lease_s=60) as platform:
        yield platform


@pytest.fixture
async def open_stream(platform, monkeypatch):
    monkeypatch.setattr(row_stream, "RETRY_FIRST_S", 0.01)
    client = RunnerClient(platform.url, TOKEN)

    async def open_stream(run, **slice_of):
        claim = await client.claim("w", 1.0)
        assert claim is not None and claim.spec.run_id == run.spec.run_id
        stream = RowStream(client.run(run.spec.run_id, claim.lease_token), **slice_of)
        stream.open()
        return stream

    yield open_stream
    await client.close()


async def indices(stream):
    return [row.row_index async for row in stream()]


async def test_rows_come_in_order_and_a_slice_of_them_too(platform, open_stream):
    assert await indices(await open_stream(platform.submit(*"abcdefg"))) == list(range(7))
    stream = await open_stream(platform.submit(*"abcdefg"), first=1, step=3)
    assert await indices(stream) == [1, 4]


async def test_a_run_without_rows_ends_at_once(platform, open_stream):
    assert await indices(await open_stream(platform.submit())) == []


async def test_a_stream_that_breaks_off_goes_on_at_the_next_row(platform, open_stream):
    platform.break_rows_after = 3
    stream = await open_stream(platform.submit(*"abcdefgh"), first=0, step=1)
    rows = await indices(stream)
    assert rows == list(range(8))
    assert platform.rows_asked == [(0, 1), (3, 1), (6, 1)]


async def test_a_stream_that_only_breaks_is_told_of(platform, open_stream):
    platform.break_rows_after = 0
    with pytest.raises(RunFailed) as failed:
        await indices(await open_stream(platform.submit(*"abc")))
    assert failed.value.kind == "dataset_unreadable"
    assert len(platform.rows_asked) == row_stream.MAX_BREAKS


async def test_a_platform_that_is_away_for_long_is_waited_for(platform, open_stream, monkeypatch):
    monkeypatch.setattr(row_stream, "RETRY_MOST_S", 0.01)
    stream = await open_stream(platform.submit(*"abc"))
    await asyncio.sleep(0)
    platform.away = True
    reading = asyncio.create_task(indices(stream))
    await asyncio.sleep(0.3)
    platform.away = False
    assert await reading == [0, 1, 2]


async def test_rows_are_read_no_faster_than_they_are_used(platform, open_stream):
    stream = await open_stream(platform.submit(*["x" * 4000] * 10_000))
    rows = stream()
    await anext(rows)
    before = -1
    while before != platform.rows_sent:
        before = platform.rows_sent
        await asyncio.sleep(0.2)
    assert platform.rows_sent < 5000, "the rest waits until somebody wants it"
    await rows.aclose()
