from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from osmosis.rollout import connection_pool
from osmosis.rollout.connection_pool import ConnectionPool

REQUEST = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def pool_to(talk: Talk) -> AsyncIterator[tuple[ConnectionPool, list[int]]]:
    """A pool to a server that ``talk``s on each connection, and the ports that connected."""
    ports: list[int] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.append(writer.get_extra_info("peername")[1])
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    pool = ConnectionPool("127.0.0.1", server.sockets[0].getsockname()[1], connect_timeout_s=5)
    try:
        yield pool, ports
    finally:
        pool.close("the test ends")
        server.close()


def answering(answer: bytes, *, once: bool = False) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(answer)
            await writer.drain()
            if once:
                return

    return talk


async def test_requests_one_after_the_other_share_a_connection():
    async with pool_to(answering(ANSWER)) as (pool, ports):
        for _ in range(3):
            answer = await pool.exchange(REQUEST)
            assert (answer.status, answer.body) == (200, b"ok")
        assert len(ports) == 1


async def test_requests_at_the_same_time_have_a_connection_each():
    async with pool_to(answering(ANSWER)) as (pool, ports):
        await asyncio.gather(*(pool.exchange(REQUEST) for _ in range(4)))
        await asyncio.gather(*(pool.exchange(REQUEST) for _ in range(4)))
        assert len(ports) == 4


async def test_a_connection_that_the_server_closed_is_not_used_again():
    async with pool_to(answering(ANSWER, once=True)) as (pool, ports):
        for _ in range(2):
            assert (await pool.exchange(REQUEST)).status == 200
            async with asyncio.timeout(5):
                while pool._idle and pool._idle[0].usable:  # noqa: ASYNC110
                    await asyncio.sleep(0)
        assert len(ports) == 2


async def test_a_connection_that_says_it_closes_is_not_used_again():
    closing = ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with pool_to(answering(closing)) as (pool, ports):
        for _ in range(2):
            assert (await pool.exchange(REQUEST)).body == b"ok"
        assert len(ports) == 2


async def test_one_that_was_idle_for_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(connection_pool, "KEEPALIVE_S", -1.0)
    async with pool_to(answering(ANSWER)) as (pool, ports):
        for _ in range(2):
            await pool.exchange(REQUEST)
        assert len(ports) == 2


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", b"SMTP, as it happens\r\n\r\n"],
)
async def test_an_answer_that_is_none_or_breaks_off_is_an_error(answer):
    async with pool_to(answering(answer, once=True)) as (pool, _):
        with pytest.raises(OSError):
            await pool.exchange(REQUEST)


async def test_an_answer_without_a_length_ends_with_its_connection():
    async with pool_to(answering(b"HTTP/1.1 200 OK\r\n\r\nall of it", once=True)) as (pool, _):
        assert (await pool.exchange(REQUEST)).body == b"all of it"


async def test_closing_the_pool_ends_requests_in_flight_and_refuses_others():
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with pool_to(silent) as (pool, ports):
        asking = asyncio.create_task(pool.exchange(REQUEST))
        async with asyncio.timeout(5):
            while not ports:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        pool.close("the process is gone")
        for refused in (asking, pool.exchange(REQUEST)):
            with pytest.raises(ConnectionResetError, match="the process is gone"):
                await refused


async def test_a_pool_that_winds_down_closes_a_few_connections_in_each_turn(monkeypatch):
    monkeypatch.setattr(connection_pool, "CLOSED_A_TURN", 2)
    async with pool_to(answering(ANSWER)) as (pool, ports):
        await asyncio.gather(*(pool.exchange(REQUEST) for _ in range(5)))
        idle, left = list(pool._idle), []
        ending = asyncio.create_task(pool.wind_down("the run is over"))
        while not ending.done():
            await asyncio.sleep(0)
            left.append(sum(connection.usable for connection in idle))
        assert (len(ports), left[:3]) == (5, [3, 1, 0])
        with pytest.raises(ConnectionResetError, match="the run is over"):
            await pool.exchange(REQUEST)


async def test_nobody_listening_is_an_error():
    with pytest.raises(OSError):
        await ConnectionPool("127.0.0.1", 1, connect_timeout_s=5).exchange(REQUEST)
