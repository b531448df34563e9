"""``[advanced] network = "loopback"``: a rollout reaches its models, is reached, and no more."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
from contextlib import asynccontextmanager

import psutil
import pytest

from osmosis.evaluation.network_door import NetworkDoor
from osmosis.evaluation.rollout_link import RolloutLink
from osmosis.evaluation.rollout_process import RolloutProcess
from osmosis.evaluation.sandbox import choose_sandbox, has_own_network
from osmosis.wire.errors import RunFailed
from osmosis.workspace.advanced import AdvancedSection
from tests.evaluation.gateway.upstream import WHOLE_STREAM, completion, says, streams, until
from tests.evaluation.rollout_lab import SERVER, Lab, Recorder, this_python

needs_a_network = pytest.mark.skipif(
    not has_own_network(choose_sandbox()), reason="no sandbox here makes a network of its own"
)

ROLLOUT = """
import http.client, socket
from urllib.parse import urlsplit

links = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if n > "2"
         and os.path.lexists(f"/proc/self/fd/{n}")]
print("inherited", sum(link.startswith("socket:") for link in links), flush=True)
open_answers = []

def ask(stream):
    url = urlsplit(os.environ["MODEL_URL"] + "/chat/completions")
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
    body = {"model": "any", "messages": [{"role": "user", "content": "hello"}], "stream": stream}
    headers = {"Authorization": "Bearer " + os.environ["MODEL_KEY"]}
    connection.request("POST", url.path, json.dumps(body), headers)
    return connection.getresponse()

def first():
    open_answers.append(ask(True))
    return open_answers[0].readline().decode()

def reach():
    reached = []
    for host, port in json.loads(os.environ["ADDRESSES"]):
        try:
            socket.create_connection((host, port), 5).close()
            reached.append(host)
        except OSError:
            pass
    try:
        reached.append(socket.getaddrinfo("example.com", 80)[0][4][0])
    except OSError:
        pass
    return reached

serve(
    call=lambda: json.loads(ask(False).read()),
    first=first,
    rest=lambda: open_answers.pop().read().decode(),
    reach=reach,
)
"""


@pytest.fixture
async def listening():
    """Addresses of this machine where somebody answers: loopback, and all others that it has."""

    async def hang_up(reader, writer):
        writer.close()

    server = await asyncio.start_server(hang_up, "0.0.0.0", 0)
    port = server.sockets[0].getsockname()[1]
    hosts = [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET
    ]
    assert "127.0.0.1" in hosts
    yield [(host, port) for host in hosts]
    server.close()


@pytest.fixture
def start(tmp_path, make_bench):
    """``async with start(network, addresses) as (ask, sink)``: a rollout, and its server."""

    @asynccontextmanager
    async def started(network, addresses=()):
        lab = Lab(tmp_path, tmp_path / "cache")
        lab.main(SERVER + ROLLOUT)
        bench = await make_bench(advanced={"max_retries": 0})
        env = {
            "MODEL_URL": bench.session.chat_completions_url,
            "MODEL_KEY": bench.session.api_key,
            "ADDRESSES": json.dumps(addresses),
        }
        plan = lab.plan(env=env, advanced=AdvancedSection(network=network))
        sink = Recorder()
        process = await RolloutProcess.start(
            plan,
            this_python(),
            sink,
            on_sample_output=lambda *_: None,
            models=bench.gateway,
        )
        link = RolloutLink(process.base_url, process.open_socket)

        async def ask(what):
            return json.loads((await link.request("GET", f"/{what}", timeout_s=30)).body)["answer"]

        try:
            yield ask, sink
        finally:
            link.close("stopped")
            await process.stop(grace_s=0)

    return started


@needs_a_network
async def test_a_rollout_off_every_network_reaches_its_models_and_nothing_else(
    start, upstream, listening
):
    gate = asyncio.Event()
    upstream.answers = [says(completion("hi")), streams(*WHOLE_STREAM, gate=gate)]
    async with start("loopback", listening) as (ask, sink):
        assert (await ask("call"))["choices"][0]["message"]["content"] == "hi"
        assert "one" in await ask("first"), "the first part is there while the rest is awaited"
        gate.set()
        assert (await ask("rest")).rstrip().endswith("data: [DONE]")
        assert await ask("reach") == []
        await until(lambda: "inherited 0" in sink.text)
        assert "no network but its own loopback" in sink.text
    async with start("on", listening) as (ask, _):
        assert set(await ask("reach")) >= {host for host, _ in listening}


@needs_a_network
async def test_many_connections_at_once_and_a_second_life_find_their_way(start, upstream):
    for _ in range(2):
        async with start("loopback") as (ask, _):
            answers = await asyncio.gather(*(ask("call") for _ in range(5)))
            assert len(answers) == 5
    assert upstream.hits == 10


@needs_a_network
async def test_an_entrypoint_that_fails_off_the_network_shows_its_own_words(tmp_path, make_bench):
    lab = Lab(tmp_path, tmp_path / "cache")
    lab.main("import pandass\n")
    bench = await make_bench()
    with pytest.raises(RunFailed, match="No module named 'pandass'"):
        await RolloutProcess.start(
            lab.plan(advanced=AdvancedSection(network="loopback")),
            this_python(),
            Recorder(),
            on_sample_output=lambda *_: None,
            models=bench.gateway,
        )


async def test_whatever_else_comes_out_of_the_sandbox_is_refused(tmp_path):
    door = NetworkDoor()
    hostile = socket.socket(fileno=os.dup(door.inner))
    door.given()
    pair = socket.socketpair()
    with (tmp_path / "file").open("w") as file, hostile, pair[0], pair[1]:
        for sent in ([file.fileno()], [pair[0].fileno()], []):
            socket.send_fds(hostile, [b"."], sent)
            with pytest.raises(OSError):
                await door.socket()
        before = psutil.Process().num_fds()
        with socket.socket() as tcp:
            socket.send_fds(hostile, [b"."], [tcp.fileno()] * 3)
        (await door.socket()).close()
        assert psutil.Process().num_fds() == before
        assert hostile.recv(16) == b".", "asked for once: whatever comes is the answer"
        waiting = asyncio.create_task(door.socket())
        await until(lambda: select.select([hostile], [], [], 0)[0])
    with pytest.raises(ConnectionResetError):
        await waiting
    door.close()
